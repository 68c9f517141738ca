"""Reading without JavaScript, on a narrow screen, and by keyboard."""

from __future__ import annotations

import re
from itertools import pairwise

from portal.evaluations.models import Evaluation
from tests.portal import factories as make


def addresses(shown) -> list[str]:
    problem, attempt = shown.problems[0], shown.attempts[-1]
    return [
        "/", "/campaigns/", "/problems/", problem.get_absolute_url(), "/attempts/", attempt.get_absolute_url(),
        f"{attempt.get_absolute_url()}?diff=split", Evaluation.objects.first().get_absolute_url(),
        f"/compare/?a={shown.attempts[0].commit}&b={attempt.commit}", "/solutions/", "/fleet/", "/events/",
        "/glossary/", "/hardware/", "/protocol/", "/login/",
    ]


def test_without_javascript_everything_can_be_read_and_filtered(open_page, shown) -> None:
    page = open_page(shown.problems[0].get_absolute_url(), java_script_enabled=False)
    assert page.locator(".plot").first.is_hidden()
    page.locator("#score-history-twin summary").click()
    assert page.locator("#score-history-twin tbody tr").first.is_visible()
    page.locator("#workload-latency-twin summary").click()
    assert page.locator("#workload-latency-twin tbody tr").first.is_visible()
    page.get_by_role("link", name="Attempts", exact=True).click()
    page.wait_for_url("**/attempts/")  # a click returns before the page is there that it leads to
    page.get_by_label("verdict").select_option("passed")
    page.get_by_role("button", name="Filter").click()
    page.wait_for_url("**verdict=passed**")
    assert page.locator("#table-attempts tbody tr").count() > 0
    page.locator("#table-attempts thead").get_by_role("link", name="speedup").click()
    page.wait_for_url("**sort=-speedup**")
    assert "verdict=passed" in page.url


SIDEWAYS = "document.documentElement.scrollWidth - innerWidth"


def test_no_page_scrolls_sideways_and_every_page_names_its_parts(open_page, published, live_server) -> None:
    page = open_page("/", viewport={"width": 390, "height": 800})
    for address in addresses(published):
        page.goto(live_server.url + address)
        for width in (1024, 390):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate(SIDEWAYS) <= 0, (address, width)
        nameless = page.evaluate("""
            [...document.querySelectorAll(
                'input:not([type=hidden]), select, textarea, button, a[href], [tabindex="0"]')]
              .filter(e => !(e.labels && e.labels.length) && !e.ariaLabel && !e.textContent.trim()
                           && !e.getAttribute('aria-labelledby'))
              .map(e => e.outerHTML.slice(0, 120))
        """)
        assert nameless == [], address
        assert page.locator("h1").count() == 1, address
        levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3,h4')].map(h => Number(h.tagName[1]))")
        assert all(b - a <= 2 for a, b in pairwise(levels)), (address, levels)
        repeated = page.evaluate("""
            [...document.querySelectorAll('[id]')].map(e => e.id).filter((id, i, all) => all.indexOf(id) !== i)
        """)
        assert repeated == [], address


WIDER_THAN_THEIR_PLACE = """
    [...document.querySelectorAll('.table-scroll')].filter(e => e.clientWidth && e.scrollWidth > e.clientWidth + 1)
      .map(e => e.ariaLabel)
"""


TALLEST_ROW = """
    Math.max(...[...document.querySelectorAll('table.data tbody tr')].map(e => e.getBoundingClientRect().height))
"""


def test_tables_fit_a_laptop_and_scroll_with_a_shade_at_the_edge_on_less(open_page, published, live_server) -> None:
    page = open_page("/", viewport={"width": 1280, "height": 800})
    evaluation = Evaluation.objects.exclude(result=None).first()
    assert evaluation is not None
    attempt = published.attempts[-1].get_absolute_url()
    # What is widest in earnest: a long name, a long description, a comparison with a long note.
    make.make_problem("l1_gqa_paged_decode_h32_kv8_d128_ps64_with_sliding_window", description="Decode. " * 30)
    reason = "the host was disturbed in every round: another process used 43 % of the cores; nothing was compared"
    for comparison in (make.make_comparison(), make.failed_comparison(reason)):
        make.make_evaluation(
            published.attempts[-1], kind=Evaluation.Kind.COMPARE, against=published.attempts[0],
            result=make.make_result(published.attempts[-1], comparison=comparison))
    for address in ("/", "/problems/", "/attempts/", attempt, evaluation.get_absolute_url(), "/solutions/", "/fleet/"):
        page.goto(live_server.url + address)
        assert page.evaluate(WIDER_THAN_THEIR_PLACE) == [], address
        assert page.evaluate(TALLEST_ROW) < (180 if address == attempt else 90), address
    page.set_viewport_size({"width": 1024, "height": 800})
    page.goto(live_server.url + "/problems/")
    assert page.evaluate(WIDER_THAN_THEIR_PLACE) == []
    _scrolls_beside_the_problems_names(page)
    page.set_viewport_size({"width": 800, "height": 800})
    page.goto(live_server.url + "/attempts/")
    assert page.evaluate(WIDER_THAN_THEIR_PLACE) != [], "nothing to scroll: this shows nothing"
    assert page.evaluate(SIDEWAYS) <= 0
    box = page.locator("#table-attempts .table-scroll")
    style = box.evaluate("e => [getComputedStyle(e).overflowX, getComputedStyle(e).backgroundAttachment]")
    assert style == ["auto", "local, local, scroll, scroll"]
    assert _right_edge_is_shaded(page, box, scrolled_to=0)
    assert not _right_edge_is_shaded(page, box, scrolled_to=10_000), "it says that the table goes on where it ends"


def _scrolls_beside_the_problems_names(page) -> None:
    """On a telephone the names stay where they are, in front of what is scrolled below them."""
    page.set_viewport_size({"width": 390, "height": 800})
    seen = page.locator("#table-problems .table-scroll").evaluate("""(scroll) => {
        const name = scroll.querySelector('tbody td'), before = name.getBoundingClientRect().x;
        scroll.scrollLeft = 10000;
        const box = name.getBoundingClientRect();
        name.scrollIntoView({block: 'center'});
        const at = name.getBoundingClientRect(), middle = at.y + at.height / 2;
        const front = [at.x + 8, at.right - 2].map(x => document.elementFromPoint(x, middle).closest('td') === name);
        return [scroll.scrollLeft > 100, box.x - before, ...front];
    }""")
    assert seen == [True, 0, True, True]


def _right_edge_is_shaded(page, box, scrolled_to: int) -> bool:
    """Whether the free strip above the headings looks otherwise at the right edge than a little further in."""
    box.evaluate("(e, left) => { e.scrollLeft = left; }", scrolled_to)
    place = box.bounding_box()

    def strip(from_right: float) -> bytes:
        x = round(place["x"] + place["width"] - from_right)
        return page.screenshot(clip={"x": x, "y": round(place["y"]) + 2, "width": 4, "height": 2})

    return strip(4) != strip(44)


def test_the_keyboard_reaches_the_content_first_and_filters_give_a_short_address(open_page, shown) -> None:
    page = open_page("/attempts/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "id_q"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.get_by_label("verdict").select_option("passed")
    page.get_by_role("button", name="Filter").click()
    page.wait_for_url(re.compile(r"/attempts/\?verdict=passed(#main)?$"))  # nothing empty in the address
