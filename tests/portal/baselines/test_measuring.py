"""Baselines as attempts: what is committed and queued, what is measured again and why, what the command says."""

from __future__ import annotations

import pytest
from django.conf import settings as django_settings
from django.core.management import CommandError, call_command

from agentcore.baselines import BaselineKind
from agentcore.vocabulary import Language, Verdict
from portal.attempts import intake
from portal.attempts.models import Attempt
from portal.baselines.measuring import Done, ensure_baselines, measure
from portal.evaluations import queue
from portal.evaluations.models import Evaluation
from portal.evaluations.worker import Worker
from portal.problems.importing import import_problem
from tests.portal import factories as make
from tests.portal import repositories as repos

pytestmark = pytest.mark.django_db
HAND = [BaselineKind.HAND]


@pytest.fixture
def problem(tmp_path):
    return repos.start(tmp_path)


def finish(**fields) -> Evaluation:
    """Claim the next evaluation and finish it, as a worker does."""
    claim = queue.claim("cpu", "bench1:1")
    evaluation = Evaluation.objects.get(pk=claim.evaluation_id)
    queue.finish(claim, make.make_result(evaluation.attempt, **fields))
    evaluation.refresh_from_db()
    return evaluation


def only(steps):
    (step,) = steps
    return step


def test_they_are_attempts_queued_before_agents_and_committed_once(problem):
    evaluations = ensure_baselines(problem, ["cpu", "h200"])
    assert sorted((e.attempt.slug, e.hardware, e.priority, e.state) for e in evaluations) == [
        (slug, hardware, Evaluation.Priority.BASELINE, "queued")
        for slug in ("eager", "hand-optimised") for hardware in ("cpu", "h200")
    ]
    assert {a.kind for a in Attempt.objects.all()} == {"baseline"}
    assert ensure_baselines(problem, ["cpu", "h200"]) == evaluations
    assert Attempt.objects.count() == 2


def test_only_what_needs_no_compiler_is_measured_unasked(problem):
    make.make_campaign(problems=[problem])
    measure(problem, ["h200"])
    intake.reconcile()
    queued = Evaluation.objects.filter(hardware="cpu").values_list("attempt__slug", flat=True)
    assert sorted(queued) == ["eager", "hand-optimised"]  # for the campaign
    assert sorted(Evaluation.objects.filter(hardware="h200").values_list("attempt__slug", flat=True)) == [
        "compile", "eager", "hand-optimised",
    ]


def test_a_changed_source_becomes_a_new_attempt(problem):
    ensure_baselines(problem)
    baseline = django_settings.PROBLEMS_DIR / "scale" / "baseline.py"
    baseline.write_text("def run(x, weight, y):\n    y[:] = x * weight\n")
    ensure_baselines(problem)
    changed = Attempt.objects.filter(slug="hand-optimised").order_by("id")
    assert changed.count() == 2
    assert changed[1].parent == changed[0]


def test_a_kind_without_a_source_says_what_is_missing_and_the_agents_slot_is_filled_by_a_commit(problem):
    kinds = [BaselineKind.LIBRARY, BaselineKind.AGENT]
    library, agent = measure(problem, ["cpu"], kinds)
    assert (library.done, library.why) == (Done.NONE, "there is no library.py beside the problem")
    assert agent.done is Done.NONE and agent.why.startswith("empty:")
    assert not Attempt.objects.exists()
    (django_settings.PROBLEMS_DIR / "scale" / "library.py").write_text("def run(x, weight, y): ...\n")
    repos.push("scale", "baseline", "def run(x, weight, y): pass\n", slug="agent", language=Language.TORCH)
    library, agent = measure(problem, ["cpu"], kinds)
    assert (library.done, agent.done) == (Done.QUEUED, Done.QUEUED)
    assert Attempt.objects.get(slug="agent").kind == "baseline"


def test_it_is_measured_again_after_the_problem_changed_or_a_try_that_was_nobodys_fault(problem):
    ensure_baselines(problem, kinds=HAND)
    finish()
    changed = import_problem(repos.write_problem(django_settings.PROBLEMS_DIR, batches=(5,))).problem
    assert only(measure(changed, ["cpu"], HAND)).why == "the problem changed"
    finish(verdict=Verdict.INFRA_ERROR, latencies=[None, None])
    ensure_baselines(changed, kinds=[BaselineKind.EAGER])
    finish(verdict=Verdict.INFRA_ERROR, latencies=[None, None])
    step = only(measure(changed, ["cpu"], [BaselineKind.EAGER]))
    assert (step.done, step.why) == (Done.QUEUED, "the last try ended as infra_error")
    assert Attempt.objects.count() == 2


def test_what_failed_is_said_and_not_measured_again_unless_forced(problem, capsys):
    ensure_baselines(problem, kinds=HAND)
    said = "w0\nhas \x1b[31mred" + "x" * 1000  # it may quote a program
    finish(verdict=Verdict.INCORRECT, latencies=[None, None], message=said)
    step = only(measure(problem, ["cpu"], HAND))
    assert step.done is Done.FAILED and step.why.startswith("incorrect, never used: w0")
    capsys.readouterr()
    call_command("baselines", "--kind", "hand")
    _, line, counts = capsys.readouterr().out.splitlines()
    assert "never used: w0 has [31mred" in line and len(line) < 400 and counts.startswith("0 queued")
    forced = only(measure(problem, ["cpu"], HAND, force=True))
    assert (forced.done, forced.why) == (Done.QUEUED, "asked for")
    assert only(measure(problem, ["cpu"], HAND, force=True)).done is Done.WAITING


def test_the_command_prints_what_it_did_and_why_for_all_problems_or_the_named_ones(problem, capsys):
    call_command("baselines", "--hardware", "b200", "--kind", "hand", "--kind", "agent")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["problem", "kind", "hardware", "done", "why"]
    assert lines[1].split(maxsplit=4) == [
        "scale", "hand", "b200", "queued", "never measured; it waits until a host with a b200 joins",
    ]
    assert lines[2].split(maxsplit=4)[:4] == ["scale", "agent", "b200", "none"] and "empty:" in lines[2]
    assert lines[3] == "1 queued, 0 waiting, 0 measured, 0 failed, 1 none"
    call_command("baselines", "--hardware", "cpu", "scale")
    assert Evaluation.objects.filter(hardware="cpu").count() == 3
    for words in (["nothing"], ["--problem", "nothing"]):
        with pytest.raises(CommandError, match="no problem 'nothing'"):
            call_command("baselines", *words)


def test_a_problem_that_main_does_not_have_is_named_and_stops_no_other(problem, capsys):
    import_problem(repos.write_problem(django_settings.PROBLEMS_DIR, "another"))  # sorts before "scale"
    call_command("baselines", "--kind", "hand")
    out, err = capsys.readouterr()
    assert err.startswith("another: its baselines cannot be committed: ")
    assert "no problem" in err and err.rstrip().endswith("run manage.py initrepos") and err.count("\n") == 1
    assert "1 queued" in out and "Traceback" not in err
    assert {e.attempt.problem.name for e in Evaluation.objects.all()} == {"scale"}


def test_waiting_for_a_worker_that_is_not_there_ends_with_what_to_start(problem):
    with pytest.raises(CommandError, match=r"1 baselines are not measured .* `manage.py fleet --hardware cpu`"):
        call_command("baselines", "--kind", "hand", "--wait", "--timeout-minutes", "0")


@pytest.mark.parametrize(("kind", "limit"), [(BaselineKind.COMPILE, 180.0), (BaselineKind.EAGER, None)])
def test_what_is_compiled_in_its_first_call_gets_the_time_for_it(problem, kind, limit):
    asked = []

    class Judge:
        def evaluate(self, problem_dir, kernel_dir, language, *, deadline_s, should_abort, **more):
            asked.append(more)
            return make.make_result(Attempt.objects.get())

        def close(self):
            pass

    ensure_baselines(problem, kinds=[kind])
    worker = Worker("cpu", lambda _hardware: Judge())
    try:
        worker.run(budget_s=60)
    finally:
        worker.close()
    assert asked == [{"options": {"first_call_timeout_s": limit}} if limit else {}]
