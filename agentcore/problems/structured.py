"""Random content with a structure: masks, offsets, distinct indices, probabilities, decays (the table in ``roles``).

Each function gives a maker: from a generator on ``device`` to a fresh tensor of ``shape`` and ``dtype``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import torch

Make = Callable[[torch.Generator], torch.Tensor]

_TRUE_IS_MASKED = re.compile(
    r"true\W{0,3}(if|is|for|means?|marks?|where|indicates?|at|->|to)?\W{0,3}"
    r"(positions? )?(to be )?(mask|pad|ignor|drop|exclud|block)"
)


def says_true_is_masked(description: str) -> bool:
    """Whether a lower-case description of a mask says that True leaves out, as ``True=masked`` does."""
    return _TRUE_IS_MASKED.search(description) is not None


def keep_mask(
    shape: tuple[int, ...], dtype: torch.dtype, device: torch.device, share: float, *, inverted: bool = False
) -> Make:
    """1 (0 if ``inverted``) for a ``share`` of the elements; the first of every row is kept, so that none is empty."""

    def make(generator: torch.Generator) -> torch.Tensor:
        kept = torch.rand(shape, generator=generator, device=device) < share
        if shape and shape[-1] > 0:
            kept[..., 0] = True
        return (~kept if inverted else kept).to(dtype)

    return make


def causal_mask(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Make:
    """0 up to the diagonal of the last two axes, the dtype's minimum above it."""

    def make(generator: torch.Generator) -> torch.Tensor:
        above = torch.full(shape[-2:], torch.finfo(dtype).min, dtype=torch.float32, device=device).triu(1)
        return above.to(dtype).expand(shape).contiguous()

    return make


def additive_mask(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Make:
    """0, and the dtype's minimum for a quarter of the elements, never for the first of a row."""
    kept = keep_mask(shape, torch.bool, device, 0.75)

    def make(generator: torch.Generator) -> torch.Tensor:
        mask = torch.zeros(shape, dtype=torch.float32, device=device)
        return mask.masked_fill_(~kept(generator), torch.finfo(dtype).min).to(dtype)

    return make


def offsets(count: int, total: int, dtype: torch.dtype, device: torch.device) -> Make:
    """``count`` rising offsets from 0 to ``total``; no part is empty where ``total`` suffices."""
    parts = count - 1

    def make(generator: torch.Generator) -> torch.Tensor:
        if parts < 1:
            return torch.zeros(count, dtype=dtype, device=device)
        least = 1 if total >= parts else 0
        # Rising cuts of what is left over, then one more for each part.
        cuts = torch.randint(0, total - least * parts + 1, (parts - 1,), generator=generator, device=device)
        steps = torch.arange(1, parts, device=device) * least
        ends = torch.tensor([0, total], device=device)
        return torch.cat((ends[:1], cuts.sort().values + steps, ends[1:])).to(dtype)

    return make


def distinct(shape: tuple[int, ...], below: int, dtype: torch.dtype, device: torch.device) -> Make:
    """Indices under ``below`` that do not repeat along the last axis, which is no longer than ``below``."""
    rows, length = math.prod(shape[:-1]), shape[-1]

    def make(generator: torch.Generator) -> torch.Tensor:
        if rows == 1:
            order = torch.randperm(below, generator=generator, device=device)[:length]
        else:
            order = torch.rand((rows, below), generator=generator, device=device).argsort(dim=-1)[:, :length]
        return order.reshape(shape).to(dtype)

    return make


def probabilities(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Make:
    """Softmax of normal numbers over the last axis."""

    def make(generator: torch.Generator) -> torch.Tensor:
        logits = torch.empty(shape, device=device).normal_(generator=generator)
        return (logits.softmax(dim=-1) if shape else logits.sigmoid()).to(dtype)

    return make


def frequencies(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Make:
    """The rotary embedding's inverse frequencies 10000^(-i/n) along the last axis (Su et al., arXiv 2104.09864)."""
    length = shape[-1] if shape else 1

    def make(generator: torch.Generator) -> torch.Tensor:
        steps = torch.arange(length, dtype=torch.float32, device=device) / max(1, length)
        return (10000.0**-steps).to(dtype).expand(shape).contiguous()

    return make


def decay(name: str, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Make:
    """A state-space model's decay: ``A`` in [-1, -0.001), ``A_log`` in [-5, -1), ``*_cumsum`` falling, else [-5, 0)."""

    def make(generator: torch.Generator) -> torch.Tensor:
        low, high = (-0.1, 0.0) if "cumsum" in name else (-5.0, -1.0) if name == "A_log" else (-5.0, 0.0)
        if name == "A":
            low, high = -1.0, -1e-3
        values = torch.empty(shape, device=device).uniform_(low, high, generator=generator)
        return (values.cumsum(dim=-1) if "cumsum" in name and shape else values).to(dtype)

    return make
