"""What an agent writes reaches a reviewer's browser as text: escaped, bounded, with nothing hidden in it."""

from __future__ import annotations

import pytest
from django.test import Client

from agentcore.gitstore import AttemptsRepository
from agentcore.judge.result import BuildReport, KernelResources
from agentcore.vocabulary import AttemptRef, CheckName, Language, Verdict
from portal.attempts import intake
from portal.attempts.repository import ensure_repositories
from tests.portal import factories as make

pytestmark = pytest.mark.django_db

SCRIPT = "<script>alert(1)</script>"
TRICK = f'{SCRIPT}"><img src=x onerror=alert(2)>\x1b[31m\u202egnirts\u200b'
PAGE_LIMIT = 700_000


@pytest.fixture
def hostile(db):
    problem = make.make_problem()
    make.make_baseline(problem)
    attempt = make.make_attempt(
        problem, subject=TRICK, body=TRICK + "\n" + "b" * 2_000_000, hypothesis=TRICK, model=TRICK[:100],
    )
    result = make.make_result(
        attempt, verdict=Verdict.INCORRECT, failed_check=CheckName.MATCHES_REFERENCE, message=TRICK + "m" * 3_000,
        runner_log=TRICK + "\nr" * 400_000,
        build=BuildReport(
            ok=False, language=Language.CPP, compiler=TRICK, flags=[TRICK] * 500, log=TRICK + "\n" + "l" * 1_500_000,
            resources=[KernelResources(name=TRICK + "n" * 9_000, registers=1)] * 50, resources_note=TRICK + "n" * 9_000,
        ),
    )
    make.make_evaluation(attempt, result=result)
    return attempt


def pages_of(attempt) -> list[str]:
    evaluation = attempt.evaluations.get()
    return [
        attempt.get_absolute_url(), evaluation.get_absolute_url(), attempt.problem.get_absolute_url(), "/attempts/",
        f"/attempts/?q={SCRIPT}", f"/compare/?a={attempt.commit}&b={attempt.commit}", "/events/", "/",
        f"/problems/?q={SCRIPT}&sort={SCRIPT}", f"/login/?next={SCRIPT}",
    ]


def test_no_page_lets_it_through(client: Client, hostile) -> None:
    for address in pages_of(hostile):
        page = client.get(address).content.decode()
        assert SCRIPT not in page, address
        assert "<img src=x" not in page, address
        assert "\x1b" not in page, address
        assert "\u202e" not in page, address
        assert "\u200b" not in page, address


def test_no_page_grows_with_it(client: Client, hostile) -> None:
    for address in pages_of(hostile):
        assert len(client.get(address).content) < PAGE_LIMIT, address


def test_what_was_cut_is_said(client: Client, hostile) -> None:
    page = client.get(hostile.get_absolute_url()).content.decode()
    assert "cut: the original has" in page
    assert "⟨U+202E⟩" in page


def test_a_plot_shows_a_subject_as_text_not_as_markup(client: Client, hostile) -> None:
    page = client.get(hostile.problem.get_absolute_url()).content.decode()
    figure = page.split('id="score-history-data"', 1)[1].split("</script>", 1)[0]
    assert "&lt;script&gt;" not in figure  # json_script writes <, > and & as escapes of its own
    assert "\\u0026lt;script\\u0026gt;" in figure


def test_a_brief_with_html_or_scripts_is_text(client: Client) -> None:
    problem = make.make_problem(brief=(
        f"# T\n{SCRIPT}\n\n[x](javascript:alert(1)) [y](data:text/html,x) ![z](http://evil/z.png)\n\n"
        "<details open ontoggle=alert(1)>\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    ))
    page = client.get(problem.get_absolute_url()).content.decode()
    assert SCRIPT not in page
    assert "<table>" in page
    assert "<details open ontoggle" not in page
    assert 'href="javascript' not in page
    assert 'href="data:' not in page
    assert "<img" not in page


def test_hostile_sources_and_file_names_are_shown_as_text(client: Client, settings) -> None:
    problem = make.make_problem()
    agent = make.make_agent("mallory")
    ensure_repositories()
    ref = AttemptRef(problem.name, Language.CPP, agent.name, "one")
    files = {
        "kernel.cpp": f"// {TRICK}\nint x; // \u202e}} if (admin) {{\n".encode() + b"int y;\n" * 30_000,
        "table.h": b"\x7fELF\0\0\0" + bytes(range(256)) * 8,
        "long.h": b"z" * 200_000,
    }
    with AttemptsRepository.open(settings.ATTEMPTS_REPOSITORY) as repository:
        repository.commit_attempt(ref, files, "Look at me")
    attempt = intake.reconcile([ref.ref])[0]
    for layout in ("unified", "split"):
        page = client.get(f"{attempt.get_absolute_url()}?diff={layout}&against=nothing").content.decode()
        assert SCRIPT not in page
        assert "\x1b" not in page
        assert "\u202e" not in page
        assert "⟨U+202E⟩" in page
        assert "Binary file: not shown." in page
        assert "The diff is longer than this page shows" in page
        assert len(page) < 3_000_000
