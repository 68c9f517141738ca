"""The axes of one region: its symbolic sizes as variable axes and expressions over them, its constants by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import sympy  # type: ignore[import-untyped]
import torch
from torch.fx import Node
from torch.utils._sympy.printers import PythonPrinter

from agentcore.extract.errors import UnsupportedRegion
from agentcore.extract.export import size_of


class Axes:
    """Variable axes of a region, found in the shapes of its inputs, in order.

    A size such as ``batch * tokens`` of which no factor is an input's size becomes an axis itself. ``place`` says on
    which input and dimension an axis can be read.
    """

    def __init__(self, inputs: Sequence[Node]) -> None:
        self._axis: dict[sympy.Expr, sympy.Symbol] = {}
        self.place: dict[str, tuple[int, int]] = {}
        sizes = [
            (size, (i, d)) for i, node in enumerate(inputs) for d, size in enumerate(tensor_sizes(node))
            if not isinstance(size, int)
        ]
        # Plain symbols first: what can be said with them needs no axis of its own.
        for size, place in sorted(sizes, key=lambda found: not found[0].is_Symbol):
            if (size.is_Symbol and size not in self._axis) or self._unsaid(size):
                name = f"a{len(self._axis)}"
                self._axis[size] = sympy.Symbol(name, positive=True, integer=True)
                self.place[name] = place

    def _unsaid(self, size: sympy.Expr) -> bool:
        return not self._local(size).free_symbols <= set(self._axis.values())

    def _local(self, size: sympy.Expr) -> sympy.Expr:
        composite = {e: s for e, s in self._axis.items() if not e.is_Symbol}
        plain = {e: s for e, s in self._axis.items() if e.is_Symbol}
        return size.subs(composite).xreplace(plain)

    def express(self, size: int | sympy.Expr) -> int | str:
        """``size`` as an int or as an expression over ``a0``, ``a1``, … Raises UnsupportedRegion."""
        if isinstance(size, int):
            return size
        if self._unsaid(size):
            raise UnsupportedRegion(f"it needs the size {size}, which none of its inputs shows")
        text: str = PythonPrinter().doprint(self._local(size))
        return int(text) if text.isdigit() else text

    @property
    def symbols(self) -> dict[str, sympy.Expr]:
        """What each axis is over the export's symbols."""
        return {str(axis): expression for expression, axis in self._axis.items()}

    def values(self, binding: Mapping[sympy.Symbol, int]) -> dict[str, int]:
        """The value of each axis under a call's values of the export's symbols."""
        return {str(axis): int(expression.subs(binding)) for expression, axis in self._axis.items()}


def tensor_sizes(node: Node) -> list[int | sympy.Expr]:
    """The sizes of the node's tensor, symbolic where the export left them open."""
    value = node.meta["val"]
    assert isinstance(value, torch.Tensor)
    return [size_of(size) for size in value.shape]


def unique(name: str, used: Iterable[str]) -> str:
    """``name``, or with the first number behind it that makes it new."""
    taken = set(used)
    number, candidate = 2, name
    while candidate in taken:
        candidate, number = f"{name}_{number}", number + 1
    return candidate
