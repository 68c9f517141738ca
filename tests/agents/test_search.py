"""The order in which configurations are proposed."""

from __future__ import annotations

import random

from agentcore.agents.search import propose
from agentcore.agents.tunables import Configuration, Tunable, configuration

SPACE = (
    Tunable("A", "2", ("1", "2", "4"), "kernel.cpp", 1),
    Tunable("B", "x", ("x", "y"), "kernel.cpp", 2),
)
START = configuration({"A": "2", "B": "x"})


def walk(seed: int) -> list[Configuration]:
    tried = {START}
    order = []
    while proposal := propose(SPACE, START, tried, random.Random(seed)):
        order.append(proposal.configuration)
        tried.add(proposal.configuration)
    return order


def test_every_configuration_is_proposed_once_and_then_none() -> None:
    order = walk(seed=3)
    assert len(order) == len(set(order)) == 5
    assert START not in order


def test_single_steps_from_the_best_come_before_restarts() -> None:
    neighbours = {configuration({"A": a, "B": b}) for a, b in (("1", "x"), ("4", "x"), ("2", "y"))}
    for seed in range(10):
        assert set(walk(seed)[:3]) == neighbours


def test_the_reason_names_the_one_parameter_that_changes() -> None:
    proposal = propose(SPACE, START, {START}, random.Random(1))
    assert proposal is not None
    changed = [name for name, value in proposal.configuration if dict(START)[name] != value]
    assert len(changed) == 1
    assert proposal.reason.startswith(f"{changed[0]} {dict(START)[changed[0]]} -> ")


def test_a_far_value_of_one_parameter_is_tried_once_its_near_ones_are_known() -> None:
    wide = (Tunable("A", "1", ("1", "2", "3", "4"), "kernel.cpp", 1),)
    start = configuration({"A": "1"})
    first = propose(wide, start, {start}, random.Random(0))
    assert first is not None
    assert first.configuration == configuration({"A": "2"})
    second = propose(wide, start, {start, first.configuration}, random.Random(0))
    assert second is not None
    assert second.configuration == configuration({"A": "3"})


def test_a_space_too_large_to_enumerate_still_yields_untried_configurations() -> None:
    huge = tuple(Tunable(f"P{i}", "0", tuple(str(v) for v in range(10)), "k.cpp", i) for i in range(12))
    start = configuration({t.name: "0" for t in huge})
    known = {start} | {configuration({**dict(start), t.name: v}) for t in huge for v in t.choices}
    proposal = propose(huge, start, known, random.Random(0))
    assert proposal is not None
    assert proposal.configuration not in known
    assert "restart" in proposal.reason
