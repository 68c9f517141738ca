"""On small random graphs of operators, counted work never exceeds what a search over every element finds necessary.

The brute force runs the graph and changes one input element at a time: an element is necessary where some change to it
changes the result (tried with several contents). Work that depends on it can be no less. Products are checked by hand:
every multiply-add that is counted must join two factors that reach the output.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from agentcore.bounds.count import count
from agentcore.problems.tensors import InputFactory

SIZE = 6

STEPS = [
    "v = v * 2 + 1",
    "v = v.t()",
    "v = v[1:5].repeat(2, 1)[:6]",
    "v = v[:, ::2].repeat(1, 2)",
    "v = torch.cat((v[2:], v[:2]))",
    "v = v.index_select(0, i)",
    "v = v[i.flip(0)]",
    "v = v.gather(1, i[None].expand(6, -1))",
    "v = torch.zeros_like(v).index_add(0, i, v)",
    "v = torch.zeros_like(v).index_copy(0, torch.arange(6), v)",
    "v = v.tril()",
    "v = torch.where(torch.arange(6) < 4, v, w)",
    "v = v.masked_fill(torch.arange(6)[:, None] > torch.arange(6), 0.0)",
    "v = torch.softmax(v.masked_fill(torch.ones(6, 6).triu(1) > 0, float('-inf')), -1)",
    "v = v.cumsum(0)",
    "v = v - v.sum(-1, keepdim=True)",
    "v = v * w",
    "v = torch.nn.functional.pad(v, (1, 1))[:, :6]",
    "v = torch.nn.functional.pad(v, (0, 0, 2, -1))[:6] + w.tril()",
    "v = v.flip(1)",
    "v = v.roll(2, 0)",
    "v = v.unfold(1, 3, 2).reshape(6, 6)",
    "v = v.reshape(3, 12).reshape(6, 6)",
    "v = v.unsqueeze(0).expand(2, 6, 6).sum(0)",
    "u = torch.zeros_like(v); u[1:4] = v[2:5]; v = u",
    "u = v.clone(); u[:, 2].add_(w[:, 0]); v = u",
    "u = w.clone(); u[i] = v; v = u",
    "u = torch.zeros(6, 6); u[:3].copy_(v[3:]); v = u + v.mean()",
    "v = torch.stack((v[0], v[5], v[1], v[1], v[2], v[3]))",
    "v = v.split(2)[1].repeat(3, 1)",
    "v = torch.nn.functional.embedding(i, v)",
    "v = v @ w",
    "v = w.t() @ v",
    "v = v.diagonal()[:, None] * w",
    "v = v.amax(0, keepdim=True) * w",
]
FINISHES = ["return v", "return v[:3]", "return v[:, -1]", "return v[i[0]]", "return v.sum(0)", "return v.tril(-1)"]


def necessary(factory: InputFactory, inputs: dict[str, Any], name: str, contents: int = 3) -> int:
    """Elements of input ``name`` whose change can change the result."""
    found = torch.zeros(inputs[name].shape, dtype=torch.bool)
    generator = torch.Generator().manual_seed(1)
    for _ in range(contents):
        base = {n: torch.randn(v.shape, generator=generator, dtype=v.dtype) if v.is_floating_point() else v
                for n, v in inputs.items()}  # fmt: skip
        before = factory.run_raw(base)
        for position in range(found.numel()):
            if bool(found.view(-1)[position]):
                continue
            for change in (8.0, -8.0):
                changed = dict(base)
                changed[name] = base[name].clone()
                changed[name].view(-1)[position] += change
                if not torch.equal(before, factory.run_raw(changed)):
                    found.view(-1)[position] = True
                    break
    return int(found.sum())


@pytest.mark.parametrize("seed", range(40))
def test_counted_bytes_never_exceed_the_elements_that_can_change_the_result(make_problem: Any, seed: int) -> None:
    rng = random.Random(seed)
    steps = [rng.choice(STEPS) for _ in range(rng.randint(1, 5))]
    body = "v = x; " + "; ".join([*steps, rng.choice(FINISHES)])
    indices = [rng.randrange(SIZE) for _ in range(SIZE)]
    problem = make_problem(
        body,
        {"x": "float32 n n", "w": "float32 n n", "i": "int64 n"},
        {"y": "float32 n n"},
        [{"n": SIZE}],
        generator=(
            "return {'x': torch.randn(6, 6), 'w': torch.randn(6, 6),"
            f" 'i': torch.tensor({indices}, dtype=torch.int64)}}"
        ),
    )
    factory = InputFactory(problem, "cpu")
    work = count(problem, problem.workloads[0], factory)
    inputs = factory.make(problem.workloads[0], torch.Generator().manual_seed(0))
    for name in ("x", "w"):
        counted = work.input_bytes[name] // 4
        assert counted <= necessary(factory, inputs, name), (name, body, indices)
    products = sum("@" in step for step in steps)
    assert sum(work.flops.values()) <= products * 2 * SIZE**3, body


@pytest.mark.parametrize("step", [s for s in STEPS if "w" not in s], ids=lambda s: s.partition("v = ")[2][:40])
def test_single_operations_are_counted_exactly(make_problem: Any, step: str) -> None:
    problem = make_problem(
        f"v = x; {step}; return v",
        {"x": "float32 n n", "i": "int64 n"},
        {"y": "float32 n n"},
        [{"n": SIZE}],
        generator="return {'x': torch.randn(6, 6), 'i': torch.tensor([4, 1, 1, 0, 5, 1])}",
    )
    factory = InputFactory(problem, "cpu")
    inputs = factory.make(problem.workloads[0], torch.Generator().manual_seed(0))
    counted = count(problem, problem.workloads[0], factory).input_bytes["x"] // 4
    assert counted == necessary(factory, inputs, "x", 2)


def test_products_count_the_terms_whose_factors_are_not_known_to_be_zero(make_problem: Any) -> None:
    inputs = {"x": "float32 n n", "w": "float32 n n"}
    for body, terms in {
        "return x.tril() @ w": 21 * 6,
        "return x.tril() @ w.triu()": sum(min(i, j) + 1 for i in range(6) for j in range(6)),
        "return (x @ w).tril()": 21 * 6,
        "return (x.tril() @ w)[:2]": 3 * 6,
        "return (x @ w)[:, 1]": 6 * 6,
        "return x @ torch.eye(6)": 0,
        "return F.pad(x, (0, 0, 2, 4)) @ w": 6 * 6 * 6,
        "return F.pad(x[:, :2], (1, 3)) @ w": 6 * 2 * 6,
        "return torch.softmax(F.pad(x[:, :2], (1, 3), value=-1e9), -1) @ w": 6 * 2 * 6,
        "return F.pad(x[:, :2], (1, 3), value=1.0) @ w": 6 * 6 * 6,
        "return x.tril()[torch.tensor([0, -1, 0])] @ w": (1 + 6 + 1) * 6,
        "return x.tril()[:, torch.tensor([5, 5])] @ w[:2]": 2 * 6,
        "y = torch.zeros(6, 6); y[torch.tensor([1, 4])] = x[:2]; return y @ w": 2 * 6 * 6,
        "return torch.zeros(6, 6).index_add(1, torch.tensor([3, 3]), x[:, :2]) @ w": 6 * 6,
        "return torch.zeros(6, 6).index_copy(0, torch.tensor([5, 0]), x.tril()[:2]) @ w": (1 + 2) * 6,
        "return torch.zeros(6, 6).scatter(1, torch.tensor([[2]]).expand(6, 1), x) @ w": 6 * 6,
        "return F.embedding(torch.tensor([1, 1]), x.tril()) @ w": 4 * 6,
        "return x.tril().gather(1, torch.tensor([[5, 0]]).expand(6, -1)) @ w[:2]": (1 + 6) * 6,
        "y = torch.zeros(6, 6); y[:2] = x[:2]; return y @ w": 2 * 6 * 6,
    }.items():
        problem = make_problem(body, inputs, {"y": "float32 n n"}, [{"n": 6}])
        assert sum(count(problem, problem.workloads[0]).flops.values()) == 2 * terms, body


def test_linear_attention_is_not_charged_for_the_square(make_problem: Any) -> None:
    problem = make_problem(
        "return ((q @ k.transpose(1, 2)).tril() * 0.5) @ v",
        dict.fromkeys(("q", "k", "v"), "bfloat16 b s d"),
        {"y": "bfloat16 b s d"},
        [{"b": 2, "s": 64, "d": 8}],
    )
    work = count(problem, problem.workloads[0])
    assert sum(work.flops.values()) <= 2 * 2 * (64 * 65 // 2) * 8
    assert any("order may be changed" in note for note in work.notes)
