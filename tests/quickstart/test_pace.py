"""The order of the quick start's work, where it stops when time is up, and what it then says."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from portal.quickstart import pace, preparation, search
from portal.quickstart.accounts import ensure_agent
from tests.portal import factories as make

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("made", "left_s", "turn"),
    [
        (0, 60.0, pace.Turn(3, 1.0)),
        (2, 60.0, pace.Turn(3, 1.0)),
        (2, None, pace.Turn(3, None)),
        (3, 60.0, None),
        (1, -5.0, None),
        (0, -5.0, pace.Turn(1, None)),  # its baselines took all the time: they were not measured for nothing
    ],
)
def test_a_problem_that_was_begun_gets_its_attempts_or_at_least_one(made, left_s, turn) -> None:
    assert pace.next_turn(made, 3, left_s) == turn


def test_when_time_runs_out_it_is_said_how_far_it_came_and_how_it_goes_on() -> None:
    counts = {"a": 3, "b": 3, "c": 1} | {f"p{i}": 0 for i in range(8)}
    said = pace.out_of_time(counts, 3)
    assert "2 of 11 problems have all 3, 1 has 1 of 3, 8 have none yet" in said
    assert "the same command goes on from here" in said
    assert "--attempts-per-problem 3" in said
    assert "1 of 2 problems has 1 of 3, 1 has none yet" in pace.out_of_time({"a": 1, "b": 0}, 3)
    assert pace.so_far(counts, 3) == "7 of 33 attempts are made already"
    assert pace.so_far({"a": 0}, 3) == "3 attempts to make"


def test_what_has_a_baseline_comes_first_then_the_example_and_then_what_is_small() -> None:
    names = ("gemm_bf16_llama8b", "rmsnorm_h4096", "moe_topk_routing_e128_k8", "swiglu_gate_i14336")
    problems = preparation.import_suite(names)
    campaign = preparation.open_campaign(problems)
    sizes = {problem.name: pace._elements(problem, preparation.HARDWARE) for problem in problems}
    assert all(size > 0 for size in sizes.values())
    by_size = sorted(set(names) - {pace.EXAMPLE}, key=lambda name: (sizes[name], name))
    assert [problem.name for problem in pace.in_order(campaign, problems)] == [pace.EXAMPLE, *by_size]
    (large,) = (problem for problem in problems if problem.name == by_size[-1])
    make.make_baseline(large)
    assert [problem.name for problem in pace.in_order(campaign, problems)] == [large.name, pace.EXAMPLE, *by_size[:-1]]


@dataclass
class Yard:
    """A campaign whose tuners are played here: each makes as many attempts as ``makes`` says, and ends."""

    campaign: object
    problems: list
    makes: dict[str, int] = field(default_factory=dict)
    takes_s: float = 0.0
    """How far the clock moves with each tuner."""
    now_s: float = 0.0
    started: list = field(default_factory=list)
    merged: list = field(default_factory=list)

    def tuner(self, agent, problem, attempts, minutes):
        self.started.append((agent, problem.name, attempts, None if minutes is None else round(minutes * 60)))
        for _ in range(min(attempts, self.makes.get(problem.name, attempts))):
            slug = f"a{problem.attempts.count()}"
            make.make_attempt(problem, ensure_agent(agent)[0], campaign=self.campaign, slug=slug)
        self.now_s += self.takes_s
        return SimpleNamespace(running=lambda: False, process=SimpleNamespace(returncode=0), last_words=lambda _: "")

    def run(self, seconds, attempts=3):
        found = search.Search(
            self.campaign, self.problems, lanes=1, attempts=attempts, seconds=seconds, start=self.tuner,
            merge=lambda problem: self.merged.append(problem.name), say=lambda _: None,
        )
        for _ in range(50):
            if not found.step():
                return found
        raise AssertionError("it does not end")


@pytest.fixture
def yard(monkeypatch) -> Yard:
    problems = [make.make_problem(name) for name in ("a", "b", "c")]
    campaign = make.make_campaign("quickstart", problems=problems)
    made = Yard(campaign, problems)
    monkeypatch.setattr(search, "ensure_baselines", lambda problem, hardware: [make.make_baseline(problem)])
    monkeypatch.setattr(search.time, "monotonic", lambda: made.now_s)
    monkeypatch.setattr(pace, "_elements", lambda problem, hardware: 1)
    return made


def test_in_time_every_problem_gets_all_its_attempts_and_is_merged_before_the_next_begins(yard: Yard) -> None:
    yard.takes_s = 10
    assert not yard.run(seconds=100).out_of_time
    assert yard.started == [("tuner-1", "a", 3, 100), ("tuner-1", "b", 3, 90), ("tuner-1", "c", 3, 80)]
    assert yard.merged == ["a", "b", "c"]
    yard.started.clear()
    assert not yard.run(seconds=100).out_of_time
    assert yard.started == []  # all is done


def test_out_of_time_no_further_problem_is_begun_and_the_next_run_goes_on(yard: Yard) -> None:
    yard.takes_s, yard.makes = 60, {"b": 1}
    first = yard.run(seconds=100)
    assert first.out_of_time
    assert yard.merged == ["a", "b"]
    assert pace.made(yard.campaign, yard.problems, 3) == {"a": 3, "b": 1, "c": 0}
    yard.started.clear()
    yard.makes = {}
    assert not yard.run(seconds=None).out_of_time
    assert [(name, attempts) for _, name, attempts, _ in yard.started] == [("b", 2), ("c", 3)]


def test_where_measuring_took_all_the_time_the_problem_begun_still_gets_one_attempt(yard: Yard) -> None:
    yard.takes_s = 60
    found = yard.run(seconds=0)
    assert found.out_of_time
    assert yard.started == [("tuner-1", "a", 1, None)]
    assert yard.merged == ["a"]


def test_a_tuner_that_finds_nothing_to_try_is_not_started_for_ever(yard: Yard) -> None:
    yard.makes = {"a": 0, "b": 0, "c": 0}
    assert not yard.run(seconds=None).out_of_time
    assert len(yard.started) == 3
    yard.started.clear()
    yard.takes_s = 60
    assert yard.run(seconds=50).out_of_time
    assert yard.started == [("tuner-1", "a", 3, 50), ("tuner-1", "a", 1, None)]  # time was up before its first attempt
