"""An attempt becomes the baseline of kind agent: what is checked, what is kept, what its measurement is."""

from __future__ import annotations

import pytest
from django.conf import settings as django_settings
from django.core.management import CommandError, call_command
from django.utils import timezone

from agentcore.baselines import BaselineKind
from agentcore.gitstore import AttemptsRepository
from agentcore.vocabulary import Language, Verdict
from portal.attempts import intake
from portal.attempts.models import Attempt
from portal.baselines.adopting import CannotAdopt, adopt
from portal.evaluations import baselines, queue
from portal.evaluations.models import Evaluation
from portal.events.models import Event
from portal.problems.importing import import_problem
from portal.solutions.models import Review
from tests.portal import factories as make
from tests.portal import repositories as repos

pytestmark = pytest.mark.django_db
SOURCE = "import torch\n\n\ndef run(x, weight, y):\n    torch.mul(x, weight, out=y)  # by hand\n"


@pytest.fixture
def problem(tmp_path):
    return repos.start(tmp_path)


def attempted(language: Language = Language.TORCH, slug: str = "main", source: str = SOURCE, **result) -> Attempt:
    """A pushed attempt that a worker finished with this result."""
    if not Attempt.objects.filter(agent__name="ada").exists():
        make.make_agent("ada")
    # The slug in the message: two commits of one program in the same second would be one.
    ref, _ = repos.push("scale", "ada", source, slug=slug, language=language, Hypothesis=slug)
    (attempt,) = intake.reconcile([ref.ref])
    if result:
        claim = queue.claim("cpu", "bench1:1")
        queue.finish(claim, make.make_result(attempt, **result))
    return attempt


def test_a_verified_attempt_fills_the_slot_and_its_measurement_counts(problem, capsys):
    attempt = attempted(latencies=[20.0, 40.0])
    rival = make.make_attempt(problem, make.make_agent("bob"))
    scored = make.make_evaluation(rival, result=make.make_result(rival, latencies=[10.0, 20.0]))
    assert scored.speedup is None
    call_command("baselines", "scale", "--kind", "agent", "--adopt", attempt.commit[:12])
    first, _, line, counts = capsys.readouterr().out.splitlines()
    assert first == f"scale: {attempt.commit[:10]} of ada is its agent baseline"
    assert "the same program as evaluation" in line and counts.startswith("0 queued, 0 waiting, 1 measured")
    (verified,) = baselines.verified_baselines(problem, "cpu")
    assert (verified.kind, verified.evaluation.attempt) == ("agent", attempt)
    scored.refresh_from_db()
    assert scored.speedup == pytest.approx(2.0)
    adopted = Attempt.objects.get(slug="agent")
    assert (adopted.kind, adopted.kernel_tree) == ("baseline", attempt.kernel_tree)
    with AttemptsRepository.open(django_settings.ATTEMPTS_REPOSITORY) as repository:
        assert repository.commit(adopted.commit).trailers["Adopted-Commit"] == attempt.commit
    event = Event.objects.get(kind="baseline.adopted")
    assert (event.attempt, event.problem, event.data["commit"]) == (attempt, problem, adopted.commit)
    call_command("baselines", "--kind", "agent", "--adopt", attempt.ref)  # again, by its branch: nothing changes
    assert Attempt.objects.filter(slug="agent").count() == 1
    assert Event.objects.filter(kind="baseline.adopted").count() == 1


def test_another_attempt_takes_the_place_of_the_one_before(problem):
    attempted(latencies=[20.0, 40.0])
    adopt("attempts/scale/torch/ada/main", BaselineKind.AGENT)
    attempted(source=SOURCE + "# faster\n", latencies=[10.0, 20.0])
    call_command("baselines", "--kind", "agent", "--adopt", "attempts/scale/torch/ada/main")
    assert [each.latency_us for each in baselines.verified_baselines(problem, "cpu")] == [pytest.approx(200**0.5)]
    assert Attempt.objects.filter(slug="agent").count() == 2


def test_what_is_no_verified_pytorch_attempt_of_the_problem_is_refused_with_the_reason(problem):
    good = attempted(latencies=[20.0, 40.0])
    wrong = attempted(source=SOURCE + "# wrong\n", latencies=[None, None], verdict=Verdict.INCORRECT)
    waiting = attempted(source=SOURCE + "# waits\n", slug="waits")
    compiled = attempted(Language.CPP, source="int kernel_launch();\n")
    baseline = make.make_baseline_attempt(problem)
    import_problem(repos.write_problem(django_settings.PROBLEMS_DIR, "another"))
    for attempt, kind, problems, said in (
        (wrong, "agent", (), "not verified on the problem as it is now (incorrect)"),
        (waiting, "agent", (), "not verified on the problem as it is now (queued)"),
        (compiled, "agent", (), "is in language cpp: a baseline is in torch"),
        (baseline, "agent", (), "is a baseline already"),
        (good, "agent", ("another",), "an attempt at scale, not at another"),
        (good, "hand", (), "only kind agent is adopted"),
    ):
        with pytest.raises(CannotAdopt) as refused:
            adopt(attempt.commit, BaselineKind(kind), problems)
        assert said in str(refused.value)
    for named, said in (("0" * 12, "there is no attempt"), ("main", "neither a commit"), ("attempts/scale/torch/x/y",
                        "there is no attempt")):
        with pytest.raises(CommandError, match=said):
            call_command("baselines", "--kind", "agent", "--adopt", named)
    with pytest.raises(CommandError, match="add --kind agent"):
        call_command("baselines", "--adopt", good.commit)
    problem.digest = "e" * 64
    problem.save()
    with pytest.raises(CannotAdopt, match="passed on an earlier version"):
        adopt(good.commit, BaselineKind.AGENT)
    assert not Event.objects.filter(kind="baseline.adopted").exists()
    assert not Evaluation.objects.filter(attempt__slug="agent").exists()


def test_what_a_later_run_found_wrong_is_neither_adopted_nor_passed_under_another_name(problem):
    first, again = attempted(latencies=[20.0, 40.0]), attempted(slug="again")
    assert again.evaluations.get().duplicate_of == first.evaluations.get()
    queue.enqueue(first, "cpu", reason="asked for")
    queue.finish(queue.claim("cpu", "bench1:1"), make.make_result(first, verdict=Verdict.REWARD_HACK))
    for attempt, said in ((first, "not verified"), (again, r"did not stand \(reward_hack\)")):
        with pytest.raises(CannotAdopt, match=said):
            adopt(attempt.commit, BaselineKind.AGENT)
    third = attempted(slug="third")
    assert third.evaluations.get().duplicate_of.verdict == Verdict.REWARD_HACK.value


def test_an_adopted_program_that_a_later_run_finds_wrong_is_no_baseline_any_more(problem):
    attempt = attempted(latencies=[20.0, 40.0])
    call_command("baselines", "scale", "--kind", "agent", "--adopt", attempt.commit)
    rival = make.make_attempt(problem, make.make_agent("bob"))
    scored = make.make_evaluation(rival, result=make.make_result(rival, latencies=[10.0, 20.0]))
    assert scored.speedup == pytest.approx(2.0)
    queue.enqueue(attempt, "cpu", reason="asked for")
    queue.finish(queue.claim("cpu", "bench1:1"), make.make_result(attempt, verdict=Verdict.REWARD_HACK))
    assert baselines.verified_baselines(problem, "cpu") == []
    scored.refresh_from_db()
    assert scored.speedup is None


def test_a_rejected_attempt_and_a_result_without_a_sandbox_are_not_adopted(problem):
    bare = attempted(latencies=[20.0, 40.0], stamp=make.make_stamp(sandbox="none"))
    with pytest.raises(CannotAdopt, match="without a sandbox"):
        adopt(bare.commit, BaselineKind.AGENT)
    attempt = attempted(slug="other", source=SOURCE + "# other\n", latencies=[20.0, 40.0])
    Review.objects.create(
        attempt=attempt, reviewer_name="rita", decision=Review.Decision.REJECTED, created_at=timezone.now()
    )
    with pytest.raises(CannotAdopt, match="was rejected by rita"):
        adopt(attempt.commit, BaselineKind.AGENT)
