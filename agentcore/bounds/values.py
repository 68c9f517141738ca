"""The computation of one reference run as values: what each was made from, and what is known of it before any input is.

Every write makes a new value, so that demand can be followed backwards without regard to storage (see ``demand``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from agentcore.bounds.masks import Mask, everything

# Origins from the narrowest to the widest: a product runs at the rate of its wider operand's origin.
ORIGINS = ("fp4", "fp8", "half", "fp32", "fp64")

SPARSE = 128
"""Zeros rarer than one in this many are not followed: they save a kernel nothing and cost memory here."""

_NEGLIGIBLE = -1e4
"""A score of this or less has no weight after a softmax (masks use the smallest number of their dtype, or -10000)."""


@dataclass(slots=True, eq=False)
class Product:
    """Multiply-adds of one operation. ``flops`` gives two per multiply-add that the wanted outputs need.

    ``direct``: what it takes as the reference does it, zeros and all. ``depth``: how many terms make one element;
    ``terms``: all multiply-adds there are; ``outer``: rows and columns, over the batch. ``skippable``: a batched
    product, of which a kernel may skip what a mask made from content leaves out. ``avoidable``: it only feeds another
    product, and the two may be taken in another order.
    """

    flops: Callable[[Mask], int]
    origin: str
    direct: int
    skippable: bool = False
    avoidable: bool = False
    depth: int = 0
    terms: int = 0
    outer: int = 0


Edge = tuple["Value", Callable[[Mask], Mask | None]]
"""An operand, and which of its elements are needed for given elements of the result."""


@dataclass(slots=True, eq=False)
class Value:
    """One tensor's content at one moment.

    ``known``: the content, where it follows from shapes, scalars and index tensors alone; ``sample``: one that it may
    have, where inputs were drawn to see where routing and branches lead. ``settled``: that of all operands is known.
    ``from_input``: an input had a part in it. ``routed``: made from indices that float content decides, so that any of
    it may turn out zero or false. ``zero`` and ``excluded``: elements known to be zero, or so negative that a softmax
    ignores them; ``maybe_zero`` and ``maybe_excluded``: a mask made from content may make any of them so.
    ``chained``: the batched products it is a linear image of; ``entangled``: more than that of a product.
    ``before``: what stood in its memory, of which ``kept`` says what is still there of given elements.
    """

    order: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    origin: str | None
    edges: Sequence[Edge] = ()
    known: torch.Tensor | None = None
    sample: torch.Tensor | None = None
    from_input: bool = False
    routed: bool = False
    zero: Mask | None = None
    excluded: Mask | None = None
    maybe_zero: bool = False
    maybe_excluded: bool = False
    source: str | None = None
    product: Product | None = None
    chained: tuple[Product, ...] = ()
    entangled: bool = False
    settled: bool = False
    before: Value | None = None
    kept: Callable[[Mask], Mask | None] | None = None
    looked_at: bool = False

    @property
    def content(self) -> torch.Tensor | None:
        """What there is to compute with."""
        return self.sample if self.known is None else self.known

    def learn(self) -> None:
        """Note the zero and the excluded elements of known content."""
        if self.looked_at:
            return
        self.looked_at = True
        if self.known is None or self.known.is_complex():
            return
        content = self.known
        for dim, (size, stride) in enumerate(zip(content.shape, content.stride(), strict=True)):
            if size > 1 and stride == 0:
                content = content.narrow(dim, 0, 1)
        if content.numel() == 0:
            return
        if content.dtype.itemsize == 1 and content.dtype.is_floating_point:
            content = content.float()
        self.zero = self._worth(content == 0)
        if content.dtype.is_floating_point:
            self.excluded = self._worth(content <= _NEGLIGIBLE)

    def _worth(self, found: torch.Tensor) -> Mask | None:
        return found.expand(self.shape) if int(np.count_nonzero(found.numpy())) * SPARSE > found.numel() else None


@dataclass(slots=True)
class Policy:
    """How to read what only content decides.

    ``lenient`` counts what is behind a mask made from content as needed (bytes come in sectors, and hardly a sector is
    masked throughout), else it is taken to hide everything (products under it can be skipped). ``met``: there was such
    a mask. ``hopeful`` counts everything that indices made from content might reach, and so says what real content
    could add at most; ``hidden``: such indices kept something from being counted.
    """

    lenient: bool = True
    met: bool = False
    hopeful: bool = False
    hidden: bool = False


    def unreachable(self, shape: Sequence[int]) -> Mask | None:
        """What is needed of a tensor of which only indices made from content say what is: nothing, to be safe."""
        self.hidden = True
        return everything(shape) if self.hopeful else None


@dataclass(slots=True)
class Call:
    """One operation as the rules see it."""

    name: str
    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    out: torch.Tensor
    index: int
    lookup: Callable[[torch.Tensor], Value]
    policy: Policy

    def value(self, tensor: torch.Tensor) -> Value:
        """The value of an operand."""
        return self.lookup(tensor)

    def argument(self, name: str, default: Any = None) -> Any:
        """An argument by its name in the operation's schema."""
        if name in self.kwargs:
            return self.kwargs[name]
        for position, argument in enumerate(self.func._schema.arguments):
            if argument.name == name:
                if position < len(self.args):
                    return self.args[position]
                return default if argument.default_value is None else argument.default_value
        return default

    @property
    def tensors(self) -> list[torch.Tensor]:
        """All tensor operands in order, those inside lists too."""
        found: list[torch.Tensor] = []
        for value in (*self.args, *self.kwargs.values()):
            if isinstance(value, torch.Tensor):
                found.append(value)
            elif isinstance(value, list | tuple):
                found += [item for item in value if isinstance(item, torch.Tensor)]
        return found

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.out.shape)


def origin_of(dtype: torch.dtype) -> str:
    """The narrowest unit whose operands hold values of ``dtype``."""
    if dtype == torch.float64 or dtype == torch.complex128:
        return "fp64"
    if dtype == torch.float32 or dtype == torch.complex64:
        return "fp32"
    if dtype in (torch.float16, torch.bfloat16):
        return "half"
    if "float4" in str(dtype):
        return "fp4"
    return "fp8"


def narrower(a: str | None, b: str | None) -> str | None:
    """The narrower of two origins; None is no constraint."""
    if a is None or b is None:
        return a or b
    return min(a, b, key=ORIGINS.index)


def wider(a: str | None, b: str | None) -> str | None:
    """The wider of two origins; None is no constraint."""
    if a is None or b is None:
        return a or b
    return max(a, b, key=ORIGINS.index)
