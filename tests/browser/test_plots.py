"""Plots draw under the strict content security policy, follow the colour scheme, and lead to the attempts."""

from __future__ import annotations

import re


def drawn(page) -> None:
    page.wait_for_selector(".plot.is-drawn")


def test_the_history_draws_every_attempt_in_the_shape_of_its_verdict(open_page, shown) -> None:
    page = open_page(shown.problems[0].get_absolute_url())
    drawn(page)
    history = page.locator("#score-history")
    measured = page.evaluate(
        "Object.fromEntries(document.querySelector('#score-history .plot').data.map(t => [t.name, t.x.length]))"
    )
    finished = {mark: count for mark, count in measured.items() if mark != "running best"}
    rows = page.locator("#score-history-twin tbody tr").count()
    assert sum(finished.values()) == rows
    assert history.locator(".scatterlayer .point").count() == rows
    assert history.locator(".legend .traces").count() == len(measured)
    latency = page.locator("#workload-latency")
    workloads = page.locator("#workload-latency-twin tbody tr").count()
    assert latency.locator(".scatterlayer .point").count() == 3 * workloads  # bound, baseline, attempt


def test_plots_add_no_inline_style_and_take_room(open_page, shown) -> None:
    page = open_page("/")
    drawn(page)
    assert page.evaluate("document.querySelectorAll('style').length") == 0
    box = page.locator("#problem-speedups .main-svg").first.bounding_box()
    assert box["width"] > 600
    assert box["height"] > 100
    # Plotly's own rules landed in our sheet: its layers lie on one another instead of one after the other.
    assert page.evaluate(
        "getComputedStyle(document.querySelector('#problem-speedups .svg-container .main-svg:nth-of-type(2)')).position"
    ) == "absolute"


PLOTS = """
    [...document.querySelectorAll('.plot.is-drawn')].map(plot => ({
        name: plot.closest('figure').id, room: plot.offsetHeight, wanted: Number(plot.dataset.height),
        width: plot.getBoundingClientRect().width, drawn: plot.querySelector('.main-svg').getBoundingClientRect().width,
        height: plot.querySelector('.main-svg').getBoundingClientRect().height,
        above: plot.nextElementSibling.parentElement.querySelector('details').getBoundingClientRect().top
            - plot.querySelector('.main-svg').getBoundingClientRect().bottom,
    }))
"""


def test_plots_keep_their_height_and_fill_their_place_at_every_width(open_page, shown, eventually) -> None:
    page = open_page(shown.problems[0].get_absolute_url())
    drawn(page)
    count = page.locator(".plot").count()
    assert count == 2
    for width in (1100, 1000, 390, 1280):  # across the widths where two columns become one and legends move
        page.set_viewport_size({"width": width, "height": 900})
        eventually(page, f"({PLOTS}).filter(p => Math.abs(p.drawn - p.width) <= 1 && p.room > 100"
                         " && Math.abs(p.height - p.room) < 1 && p.above > -1).length", count)
        assert width == 390 or all(plot["room"] == plot["wanted"] for plot in page.evaluate(PLOTS)), width


def test_a_plot_follows_the_colour_scheme(open_page, shown, eventually) -> None:
    page = open_page(shown.problems[0].get_absolute_url(), color_scheme="light")
    drawn(page)
    read = "getComputedStyle(document.querySelector('#score-history .ytick text')).fill"
    light = page.evaluate(read)
    page.emulate_media(color_scheme="dark")
    eventually(page, f"{read} !== {light!r}", True)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(19, 21, 23)"


def test_hovering_panning_and_resetting_stay_within_the_policy(open_page, shown) -> None:
    page = open_page(shown.problems[0].get_absolute_url())
    drawn(page)
    for plot in ("#score-history", "#workload-latency"):
        page.locator(f"{plot} .scatterlayer .point").last.hover(force=True)
        page.locator(f"{plot} .hoverlayer .hovertext").first.wait_for()
        box = page.locator(f"{plot} .nsewdrag").first.bounding_box()
        middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 3
        page.mouse.move(*middle)
        page.mouse.down()
        page.mouse.move(middle[0] + 40, middle[1] + 10, steps=4)
        page.mouse.up()
        page.mouse.dblclick(*middle)


def test_a_click_on_a_point_opens_the_attempt(open_page, shown) -> None:
    page = open_page(shown.problems[0].get_absolute_url())
    drawn(page)
    page.locator("#score-history .scatterlayer .point").last.click(force=True)
    page.wait_for_url(re.compile(r"/attempts/[0-9a-f]{40}/"))
    assert page.locator("#outcome").is_visible()


def test_hostile_subjects_stay_text_in_a_hover_label(open_page, shown) -> None:
    from portal.attempts.models import Attempt

    Attempt.objects.update(subject="<b>bold</b> <a href='javascript:alert(1)'>link</a>")
    page = open_page(shown.problems[0].get_absolute_url())
    drawn(page)
    page.locator("#score-history .scatterlayer .point").last.hover(force=True)
    label = page.locator(".hoverlayer .hovertext").first
    label.wait_for()
    assert "<b>bold</b>" in label.text_content()
    assert label.locator("a").count() == 0
