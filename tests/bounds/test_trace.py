"""How a reference is followed without its content: geometry, views, writes, and what a generator fills in."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from agentcore.bounds.count import BoundUnavailable, count
from agentcore.bounds.operators import AS_QUICK, same_geometry
from agentcore.bounds.trace import Trace
from agentcore.bounds.values import Call, Policy


def _shapes() -> dict[str, torch.Tensor]:
    whole = torch.empty(6, 5, 4)
    return {
        "dense": torch.empty(6, 4),
        "a slice with gaps": whole[:, 2],
        "transposed": torch.empty(4, 6).t(),
        "permuted with gaps": whole[:, :3].permute(2, 0, 1)[:, :, 0].t(),
        "one row for all": torch.empty(1, 4).expand(6, 4),
        "one column for all": torch.empty(6, 1).expand(6, 4),
        "one row": torch.empty(4),
        "every second": torch.empty(12, 8)[::2, ::2],
        "one number": torch.empty(()),
    }


@pytest.mark.parametrize("left", sorted(_shapes()))
@pytest.mark.parametrize("right", sorted(_shapes()))
def test_arithmetic_that_is_not_asked_of_torch_has_the_strides_that_torch_gives(left: str, right: str) -> None:
    a, b = _shapes()[left], _shapes()[right]
    call = Call("add", torch.ops.aten.add.Tensor, (a, b), {}, a, 0, lambda tensor: None, Policy())  # type: ignore[arg-type,return-value]
    quick = same_geometry(call)
    if quick is not None:
        wanted = a + b
        assert (quick.shape, quick.stride(), quick.dtype) == (wanted.shape, wanted.stride(), wanted.dtype)
    dense = {"dense", "a slice with gaps", "every second", "one row"}
    assert quick is not None or not {left, right} <= dense


@pytest.mark.parametrize("shape", sorted(_shapes()))
def test_casts_powers_and_means_have_the_geometry_that_torch_gives(shape: str) -> None:
    given = _shapes()[shape]
    aten = torch.ops.aten
    for operator, name, more, kwargs in (
        (aten._to_copy.default, "_to_copy", (), {"dtype": torch.bfloat16}),
        (aten.pow.Tensor_Scalar, "pow", (3,), {}),
    ):
        call = Call(name, operator, (given, *more), kwargs, given, 0, lambda tensor: None, Policy())  # type: ignore[arg-type,return-value]
        quick, wanted = same_geometry(call), operator(given, *more, **kwargs)
        assert quick is not None or shape != "dense"
        if quick is not None:
            assert (quick.shape, quick.stride(), quick.dtype) == (wanted.shape, wanted.stride(), wanted.dtype)
    for dims in range(given.dim()):
        asked, wanted = AS_QUICK[aten.mean.dim](given.to("meta"), [dims], True), aten.mean.dim(given, [dims], True)
        assert (asked.shape, asked.stride(), asked.dtype) == (wanted.shape, wanted.stride(), wanted.dtype)


def test_a_write_through_a_detached_view_is_a_write(make_problem: Any) -> None:
    problem = make_problem(
        "y = torch.zeros_like(x); y.detach()[:3] = x[:3]; z = y.detach().detach(); z[0] = w[0]; return y",
        {"x": "float32 n", "w": "float32 n"}, {"y": "float32 n"}, [{"n": 8}],
    )  # fmt: skip
    assert count(problem, problem.workloads[0]).input_bytes == {"x": 2 * 4, "w": 4}


def test_indices_that_a_generator_fills_in_row_by_row_are_known(make_problem: Any) -> None:
    rows = "[torch.arange(3) + i % 2 for i in range(axes['n'])]"
    found = []
    for made in (
        f"ids = torch.stack({rows})",
        f"ids = torch.zeros(axes['n'], 3, dtype=torch.int64)\n    for i, row in enumerate({rows}): ids[i] = row",
    ):
        problem = make_problem(
            "return F.embedding(ids, table)",
            {"ids": "int64 n 3", "table": "bfloat16 v d"},
            {"y": "bfloat16 n 3 d"},
            [{"n": 40, "v": 100, "d": 8}],
            generator=f"{made}\n    return {{'ids': ids, 'table': torch.randn(axes['v'], axes['d']).bfloat16()}}",
        )
        found.append(count(problem, problem.workloads[0]).input_bytes)
    assert found[0] == found[1] == {"ids": 40 * 3 * 8, "table": 4 * 8 * 2}


FOLLOWED = {
    "without content": "",
    "on real content": "n = torch.nonzero(q[0, :, 0] > -99).shape[0]; assert n == 16; ",
}


@pytest.mark.parametrize("mask", ["zeros", "full", "new_zeros"])
@pytest.mark.parametrize("small", [1 << 28, 0], ids=["real", "sampled"])
@pytest.mark.parametrize("followed", list(FOLLOWED))
def test_a_mask_written_in_part_is_what_was_written(
    make_problem: Any, monkeypatch: pytest.MonkeyPatch, mask: str, small: int, followed: str
) -> None:
    monkeypatch.setattr("agentcore.bounds.count._REAL_LIMIT_BYTES", small)
    made = {"zeros": "torch.zeros(16, 16, dtype=torch.bool)", "full": "torch.full((16, 16), False)",
            "new_zeros": "q.new_zeros((16, 16), dtype=torch.bool)"}[mask]  # fmt: skip
    problem = make_problem(
        FOLLOWED[followed] + f"m = {made}; m[4:, :12] = torch.ones(12, 12, dtype=torch.bool); "
        "return torch.softmax((q @ k.transpose(1, 2)).masked_fill(m, float('-inf')), -1) @ k",
        {"q": "bfloat16 b s d", "k": "bfloat16 b s d"},
        {"y": "bfloat16 b s d"},
        [{"b": 2, "s": 16, "d": 8}],
    )
    assert count(problem, problem.workloads[0]).flops == {"half": 2 * 2 * 2 * 8 * (4 * 16 + 12 * 4)}


ROUTED = {
    "experts": """hit = torch.zeros(e, dtype=torch.bool)
    ids = (x @ gate.t()).softmax(-1).topk(2, -1).indices
    out = torch.zeros_like(x)
    for i in range(e):
        rows, _ = torch.where(ids == i)
        if rows.numel():
            out.index_add_(0, rows, x[rows] @ w[i])
    return out""",
    "a branch": """if bool((x.sum(-1) > 1e9).any()):
        return x @ w[0]
    return (x @ gate.t())[:, :1] * x""",
    "a number of rows": """n = int((x[:, 0] > -1e9).sum())
    return torch.cat((x[:n] @ w[1], x[n:]))""",
    "a split into used and unused": """used = (x @ gate.t()).argmax(-1).bincount(minlength=e)
    out = x.clone()
    for i in range(e):
        out = out @ w[i] if int(used[i]) >= 0 else out
    return out""",
}


@pytest.mark.parametrize("kind", list(ROUTED))
def test_routing_that_follows_from_small_tensors_is_counted_beside_large_ones(
    make_problem: Any, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    problem = make_problem(
        f"e = w.shape[0]\n    {ROUTED[kind]}",
        {"x": "float32 n d", "gate": "float32 e d", "w": "float32 e d d"},
        {"y": "float32 n d"},
        [{"n": 64, "d": 32, "e": 3}],
    )
    real = count(problem, problem.workloads[0])
    monkeypatch.setattr("agentcore.bounds.count._REAL_LIMIT_BYTES", 0)
    monkeypatch.setattr("agentcore.bounds.trace.SAMPLED", 64 * 32)  # w has no content
    sampled = count(problem, problem.workloads[0])
    assert (sampled.flops, sampled.input_bytes) == (real.flops, real.input_bytes)
    assert kind == "a branch" or any("random content" in note for note in sampled.notes)


def test_routing_is_not_counted_where_what_decides_it_costs_too_much(
    make_problem: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = make_problem(
        "return torch.cat((x[(x @ x.t()).sum(-1) > 0], x))[:x.shape[0]]",
        {"x": "float32 n n"}, {"y": "float32 n n"}, [{"n": 64}],
    )  # fmt: skip
    monkeypatch.setattr("agentcore.bounds.count._REAL_LIMIT_BYTES", 0)
    assert count(problem, problem.workloads[0]).flops
    monkeypatch.setattr("agentcore.bounds.trace.SAMPLED_WORK", 1000)
    with pytest.raises(BoundUnavailable, match=r"depends on content.*small enough to be run does not decide it"):
        count(problem, problem.workloads[0])


def test_zeros_that_meet_nowhere_leave_nothing_to_carry_along(make_problem: Any) -> None:
    problem = make_problem(
        "even = torch.arange(x.shape[1]) % 2; v = x * even + x.roll(1, 1) * (1 - even); return v @ v.t()",
        {"x": "float32 n n"}, {"y": "float32 n n"}, [{"n": 64}],
    )  # fmt: skip
    trace = Trace()
    x = torch.empty(64, 64, device="meta")
    trace.watch("x", x)
    with trace:
        even = torch.arange(64) % 2
        left, right = x * even, x.roll(1, 1) * (1 - even)
        both = left + right
    assert trace.result(left).zero is not None and trace.result(right).zero is not None
    assert trace.result(both).zero is None
    assert count(problem, problem.workloads[0]).flops == {"fp32": 2 * 64**3}
