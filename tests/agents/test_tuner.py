"""The tuner against a real portal: git over HTTP, the JSON, the record. Only the clock is a formula."""

from __future__ import annotations

import pytest

from .conftest import Town, Yard

pytestmark = pytest.mark.slow


def test_it_measures_the_start_then_climbs_building_each_attempt_on_the_best(yard: Yard) -> None:
    assert "every configuration is known (6)" in yard.tune()
    attempts = yard.attempts()
    tried = [yard.values(attempt["commit"]) for attempt in attempts]
    assert tried[0] == {"LANES": 1, "UNROLL": 1}
    assert len({tuple(values.items()) for values in tried}) == len(attempts) == 6
    best, best_lanes = attempts[0]["commit"], 1
    for attempt, values in zip(attempts[1:], tried[1:], strict=True):
        assert attempt["parent"] == best, attempt["subject"]
        if values["LANES"] > best_lanes:  # the formula: only LANES makes it faster
            best, best_lanes = attempt["commit"], values["LANES"]
    assert best_lanes == 4


def test_the_hypothesis_and_the_handoff_say_what_changed_and_what_is_known(searched: Yard) -> None:
    first, second, third, *_ = searched.attempts()
    assert "starting kernel as it is" in first["hypothesis"]
    before, after = searched.values(second["parent"]), searched.values(second["commit"])
    (name,) = [key for key in after if after[key] != before[key]]
    assert second["hypothesis"].startswith(f"{name} {before[name]} -> {after[name]} ")
    assert "2 of 6 configurations" in third["body"]
    assert "LANES=1 UNROLL=1: " in third["body"]


def test_a_resumed_tuner_repeats_nothing_and_goes_on_from_the_best(searched: Yard) -> None:
    earlier = searched.attempts()
    assert f"{len(earlier)} of 6 configurations known" in searched.tune("--attempts", "2", "--seed", "9")
    later = searched.attempts()[len(earlier):]
    known = [searched.values(attempt["commit"]) for attempt in earlier]
    assert len(later) == 2
    assert all(searched.values(attempt["commit"]) not in known for attempt in later)
    assert all(attempt["evaluation"]["state"] == "done" for attempt in later)
    fastest = min(earlier, key=lambda attempt: attempt["evaluation"]["latency_geomean_us"])
    assert later[0]["parent"] == fastest["commit"]


def test_attempts_in_all_count_earlier_ones(searched: Yard) -> None:
    wanted = len(searched.attempts()) + 1
    searched.tune("--attempts", str(wanted), "--in-all")
    assert len(searched.attempts()) == wanted
    searched.tune("--attempts", str(wanted), "--in-all")
    assert len(searched.attempts()) == wanted


def test_several_problems_take_turns(town: Town, yard: Yard) -> None:
    other = Yard(town, town.unused.pop())
    other.judge_by("100 / LANES")
    yard.tune("--problem", other.problem, "--attempts", "2")
    made = sorted(yard.attempts() + other.attempts(), key=lambda attempt: attempt["received_at"])
    assert [attempt["problem"] for attempt in made] == [yard.problem, other.problem] * 2


def test_no_attempt_starts_after_the_time_is_used_up(yard: Yard) -> None:
    assert "the time is used up" in yard.tune("--minutes", "0")
    assert yard.attempts() == []


def test_a_difference_inside_the_noise_does_not_become_the_best(yard: Yard) -> None:
    yard.judge_by("100 - LANES", noise=0.1)
    output = yard.tune("--attempts", "3")
    first, *others = yard.attempts()
    assert all(attempt["parent"] == first["commit"] for attempt in others)
    assert output.count("unproven") == 2


def test_failed_configurations_are_learned_from_and_never_built_on(town: Town) -> None:
    yard = Yard(town, "narrow")
    yard.judge_by("0 if UNROLL == 2 else 100 / LANES")
    yard.tune()
    attempts = yard.attempts()
    assert len(attempts) == 4
    assert {attempt["evaluation"]["verdict"] for attempt in attempts} == {"passed", "incorrect"}
    assert all(yard.values(attempt["parent"])["UNROLL"] == 1 for attempt in attempts if attempt["parent"])
    assert "did not pass ended as: incorrect" in attempts[-1]["body"]


def test_a_kernel_without_declarations_stops_with_the_reason(town: Town) -> None:
    assert "declares no parameters" in Yard(town, "bare").tune(expect=2)


def test_a_wrong_name_is_refused_in_one_clear_line(yard: Yard) -> None:
    output = yard.tune(agent="mallory", expect=2)
    assert "Traceback" not in output
    assert len(output.splitlines()) <= 3
    assert yard.attempts() == []
