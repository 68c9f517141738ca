"""Compares a call's outputs with the reference, by the workload's tolerance. Knows no clock and no process.

Rules (SOL-ExecBench's, tightened): an element matches where |got − want| ≤ max_atol + max_rtol·|want|; NaN matches only
NaN, an infinity only the same infinity; at least ``required_matched_ratio`` of each floating output must match and no
error may exceed ``max_error_cap``; integer and bool outputs are compared exactly. An output that is all zero where the
reference is not never passes, whatever the tolerance.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from agentcore.judge.layout import as_bits
from agentcore.problems import Tolerance

STALE_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Comparison:
    """The worst of all outputs. ``message`` is empty where everything matches."""

    matched_ratio: float
    max_abs_error: float
    max_rel_error: float
    message: str = ""

    @property
    def ok(self) -> bool:
        return not self.message


Outputs = Mapping[str, torch.Tensor]


class Glance(Protocol):
    """Another way to what :func:`_glance` says of the same pairs, at least one; None where it cannot say it.

    Where elements of a pair are wrong its errors need not be the same: such a call is compared closely anyway.
    """

    def __call__(
        self, got: Sequence[torch.Tensor], want: Sequence[torch.Tensor], tolerance: Tolerance
    ) -> torch.Tensor | None: ...


def compare_all(
    calls: Sequence[tuple[Outputs, Outputs]], tolerance: Tolerance, glance: Glance | None = None
) -> list[Comparison]:
    """Compare (got, want) of many calls of one workload, shapes alike, at the price of one wait for the device.

    Agreement is settled from a few sums per output, by ``glance`` where it can; whatever is not plainly right is looked
    at closely by :func:`compare`, whose answer is the one that counts.
    """
    if not calls or not calls[0][1]:
        return [Comparison(1.0, 0.0, 0.0) for _ in calls]
    names = list(calls[0][1])
    columns: list[torch.Tensor] = []
    for name in names:
        pairs = [got[name] for got, _ in calls], [want[name] for _, want in calls]
        column = None if glance is None else glance(*pairs, tolerance)
        columns.append(_glance(*pairs, tolerance) if column is None else column)
    seen = torch.stack(columns, dim=1).cpu().tolist()
    # An error that is not finite is never plain: an infinite reference makes an infinite allowance.
    cap = sys.float_info.max if tolerance.max_error_cap is None else tolerance.max_error_cap
    found: list[Comparison] = []
    for (got, want), rows in zip(calls, seen, strict=True):
        if all(wrong == 0 and worst <= cap for wrong, worst, _relative in rows):
            found.append(Comparison(
                1.0, max((r[1] for r in rows), default=0.0),
                min(max((r[2] for r in rows), default=0.0), sys.float_info.max),
            ))
        else:
            found.append(compare(got, want, tolerance))
    return found


GLANCE_ELEMENTS = 1 << 25
"""How many elements are looked at together: many small outputs at a time, large ones alone."""


def _glance(got: Sequence[torch.Tensor], want: Sequence[torch.Tensor], tolerance: Tolerance) -> torch.Tensor:
    """(elements not plainly right, largest error, largest relative error) of each pair, left on the device: (pairs, 3).

    "Plainly right" is stricter than a match: NaN and infinities count as wrong here, and so does an output that is all
    zero while the reference is not.
    """
    size = want[0].numel()
    if size == 0:
        return torch.zeros((len(want), 3), dtype=torch.float64, device=want[0].device)
    step = max(1, GLANCE_ELEMENTS // size)
    return torch.cat([
        _glance_rows(_stacked(got[begin : begin + step]), _stacked(want[begin : begin + step]), tolerance)
        if step > 1 else _glance_rows(got[begin].reshape(1, -1), want[begin].reshape(1, -1), tolerance)
        for begin in range(0, len(want), step)
    ])


def _stacked(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """One tensor a row, by bytes where an element is one: CUDA cannot concatenate every kind of small float."""
    dtype = tensors[0].dtype
    if dtype.itemsize > 1:
        return torch.stack([t.reshape(-1) for t in tensors])
    return torch.stack([t.reshape(-1).view(torch.uint8) for t in tensors]).view(dtype)


def _glance_rows(got: torch.Tensor, want: torch.Tensor, tolerance: Tolerance) -> torch.Tensor:
    if not want.dtype.is_floating_point:
        wrong = (as_bits(got) != as_bits(want)).sum(dim=1).double()
        return torch.stack((wrong, torch.zeros_like(wrong), torch.zeros_like(wrong)), dim=1)
    g, w = _wide(got), _wide(want)
    size = w.abs()
    error = (g - w).abs_()
    # Written so that a comparison with NaN, which is never true, counts as wrong.
    right = error <= size * tolerance.max_rtol + tolerance.max_atol
    wrong = (~right).sum(dim=1).double()  # counted in integers, which a CPU does in half the time
    zeroed = (g.abs().amax(dim=1) == 0) & (size.amax(dim=1) != 0)  # of bools made of all the elements, likewise
    relative = (error / size.clamp_min_(1e-6)).amax(dim=1)
    return torch.stack((wrong + zeroed, error.amax(dim=1).double(), relative.double()), dim=1)


def compare(got: Outputs, want: Outputs, tolerance: Tolerance) -> Comparison:
    """Compare outputs by name; shapes and dtypes are already equal, as the judge owns both sides."""
    ratio, worst_abs, worst_rel, message = 1.0, 0.0, 0.0, ""
    for name, reference in want.items():
        one = _compare_tensor(name, got[name], reference, tolerance)
        ratio = min(ratio, one.matched_ratio)
        worst_abs, worst_rel = max(worst_abs, one.max_abs_error), max(worst_rel, one.max_rel_error)
        message = message or one.message
    return Comparison(ratio, worst_abs, worst_rel, message)


def _compare_tensor(name: str, got: torch.Tensor, want: torch.Tensor, tolerance: Tolerance) -> Comparison:
    if want.numel() == 0:
        return Comparison(1.0, 0.0, 0.0)
    if not want.dtype.is_floating_point:
        # By bits: a bool that is neither 0 nor 1 is wrong, whatever a comparison of bools would make of it.
        wrong = as_bits(got) != as_bits(want)
        count = int(wrong.sum())
        if not count:
            return Comparison(1.0, 0.0, 0.0)
        where = _first(wrong)
        detail = f"output {name!r}: {count} of {want.numel()} elements differ; first at {where}: "
        detail += f"got {got[where].item()}, want {want[where].item()} (integers are compared exactly)"
        difference = (got.double() - want.double()).abs().max().item()
        return Comparison(1 - count / want.numel(), difference, 0.0, detail)
    g, w = _wide(got), _wide(want)
    error = (g - w).abs()
    same = (g == w) | (g.isnan() & w.isnan())  # covers equal infinities
    matched = same | (error <= tolerance.max_atol + tolerance.max_rtol * w.abs())
    matched &= ~(w.isinf() & ~same)
    finite = torch.where(same | ~error.isfinite(), torch.zeros_like(error), error)
    max_abs = float(finite.max())
    relative = torch.where(w.isnan(), torch.zeros_like(finite), finite / w.abs().clamp_min(1e-6))
    max_rel = min(float(relative.max()), sys.float_info.max)  # a record holds finite numbers only
    ratio = float(matched.sum(dtype=torch.float64)) / w.numel()
    unexpected = ~g.isfinite() & ~same
    message = ""
    if bool(unexpected.any()):
        where = _first(unexpected)
        message = (
            f"output {name!r}: {int(unexpected.sum())} NaN or infinite elements the reference does not have; "
            f"first at {where}: got {g[where].item()}, want {w[where].item()}"
        )
    elif ratio < tolerance.required_matched_ratio:
        where = _first(~matched)
        message = (
            f"output {name!r}: {100 * ratio:.3f} % of elements within tolerance, "
            f"{100 * tolerance.required_matched_ratio:.3f} % required; first mismatch at {where}: "
            f"got {g[where].item():.6g}, want {w[where].item():.6g} "
            f"(atol {tolerance.max_atol:g}, rtol {tolerance.max_rtol:g})"
        )
    elif tolerance.max_error_cap is not None and max_abs > tolerance.max_error_cap:
        where = _first(finite > tolerance.max_error_cap)
        message = f"output {name!r}: error {max_abs:.6g} at {where} exceeds the cap {tolerance.max_error_cap:g}"
    elif not bool(g.any()) and bool(w.any()):
        message = f"output {name!r}: all zero, while the reference is not"
    return Comparison(ratio, max_abs, max_rel, message)


_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    """The values in a format that holds them exactly; packed 4-bit floats one by one, so twice as many in a row."""
    if tensor.dtype == torch.float64:
        return tensor
    if tensor.dtype == getattr(torch, "float4_e2m1fn_x2", None):
        table = torch.tensor([*_E2M1, *(-value for value in _E2M1)], device=tensor.device)
        packed = tensor.view(torch.uint8)
        halves = torch.stack((packed & 15, packed >> 4), dim=-1)
        return table[halves.flatten(-2).long()]
    return tensor.to(torch.float32)


def stale_elements(got: torch.Tensor, before: torch.Tensor, after: torch.Tensor, tolerance: Tolerance) -> int:
    """How many elements still have the answer to ``before`` where ``after`` is clearly another; 0 for a few strays.

    An honest kernel may round a quantised result to what happens to be the earlier answer, in fewer elements than
    ``STALE_SHARE`` of those that differ; what answers from memory does so in all of them.
    """
    if after.dtype.is_floating_point:
        g, b, a = (_wide(t) for t in (got, before, after))
        allowed = tolerance.max_atol + tolerance.max_rtol * a.abs()
        differ = (a - b).abs() > 4 * allowed
        stale = differ & ((g - b).abs() <= allowed)
    else:
        g, b, a = (as_bits(t) for t in (got, before, after))
        differ = a != b
        stale = differ & (g == b)
    count = int(stale.sum())
    return count if count > max(STALE_SHARE, 1 - tolerance.required_matched_ratio) * int(differ.sum()) else 0


def _first(mask: torch.Tensor) -> tuple[int, ...]:
    flat = int(mask.flatten().to(torch.uint8).argmax())
    index: list[int] = []
    for extent in reversed(mask.shape):
        index.append(flat % extent)
        flat //= extent
    return tuple(reversed(index))
