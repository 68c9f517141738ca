"""How a reference is followed without its content: geometry, views, writes, and what a generator fills in."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from agentcore.bounds.count import count
from agentcore.bounds.operators import same_geometry
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
