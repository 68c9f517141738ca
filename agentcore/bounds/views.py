"""Which elements of a tensor a view of it shows: view operations applied to masks, forwards and backwards."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from agentcore.bounds import masks
from agentcore.bounds.masks import Mask

_RESHAPES = frozenset(["view", "_unsafe_view", "reshape", "_reshape_alias", "unsqueeze", "squeeze", "flatten"])
UNCHANGED = frozenset(["alias", "detach", "lift_fresh"])
"""Views that show the very tensor they are given."""

_SAME = UNCHANGED | frozenset(["_conj", "_neg_view", "lift"])


@dataclass(slots=True)
class Step:
    """One view operation: its function, the arguments after the tensor, and which of several results is meant."""

    func: Any
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: int | None
    in_shape: tuple[int, ...]
    out_shape: tuple[int, ...]
    widths: tuple[int, int]

    @property
    def is_reshape(self) -> bool:
        """Whether every element stays, in the same order."""
        return self.name in _RESHAPES

    def apply(self, content: torch.Tensor | None) -> torch.Tensor | None:
        """What the view shows of ``content``."""
        if content is None:
            return None
        shown = self.func(content, *self.args, **self.kwargs)
        result: torch.Tensor = shown if self.result is None else shown[self.result]
        return result

    def forward(self, mask: Mask) -> Mask | None:
        """The mask of the view, for a mask of what it is a view of. None where it cannot be said within the limit."""
        if masks.is_everything(mask):
            return masks.everything(self.out_shape)
        if self.name in _SAME:
            return mask
        if self.name in _RESHAPES:
            return masks.reshape(mask, self.out_shape)
        if self.widths[0] != self.widths[1] or self.name in ("as_strided", "view_as_real", "view_as_complex"):
            return self._by_address_forward(mask)
        return self.apply(mask)

    def backward(self, mask: Mask) -> Mask | None:
        """The elements that the meant elements of the view are. None where it cannot be said within the limit."""
        name, args, shape = self.name, self.args, self.in_shape
        if name in _SAME:
            return mask
        if self.widths[0] != self.widths[1]:
            return self._width_backward(mask)
        if name in _RESHAPES:
            return masks.reshape(mask, shape)
        if name == "expand":
            return masks.unbroadcast(mask, shape)
        if name == "t":
            return mask.t()
        if name == "transpose":
            return mask.transpose(args[0], args[1])
        if name == "permute":
            order = [d % len(shape) for d in args[0]]
            return mask.permute([order.index(d) for d in range(len(shape))])
        if name == "select":
            dim, at = args[0] % len(shape), args[1] % shape[args[0]]
            return masks.placed(mask, shape, dim, lambda m: m.narrow(dim, at, 1))
        if name == "slice":
            dim = (args[0] if args else self.kwargs.get("dim", 0)) % len(shape)
            return masks.placed(mask, shape, dim, self._shown)
        if name in ("split", "split_with_sizes", "chunk", "tensor_split", "narrow"):
            dim = self._dim_of_split() % len(shape)
            return masks.placed(mask, shape, dim, self._shown)
        if name == "unbind":
            dim = (args[0] if args else 0) % len(shape)
            return masks.placed(mask, shape, dim, lambda m: m.narrow(dim, self.result or 0, 1))
        if name == "unfold":
            return self._unfold_backward(mask)
        return self._by_address_backward(mask)

    def _unfold_backward(self, mask: Mask) -> Mask | None:
        dim = self.args[0] % len(self.in_shape)
        small = masks.compact(mask)
        windows = small.expand([n if d in (dim, small.dim() - 1) else small.shape[d] for d, n in enumerate(mask.shape)])
        sizes = [n if d == dim else small.shape[d] for d, n in enumerate(self.in_shape)]
        if max(math.prod(sizes), windows.numel()) > masks.LIMIT:
            return None
        made = torch.zeros(sizes, dtype=torch.bool)
        # Windows overlap: written one place of all windows at a time, they do not.
        shown = made.unfold(dim, *self.args[1:])
        for place in range(windows.shape[-1]):
            shown.select(-1, place).logical_or_(windows.select(-1, place))
        return made.expand(self.in_shape)

    def _shown(self, mask: Mask) -> Mask:
        shown = self.apply(mask)
        assert shown is not None
        return shown

    def _dim_of_split(self) -> int:
        if self.name == "narrow":
            return int(self.args[0])
        return int(self.args[1] if len(self.args) > 1 else self.kwargs.get("dim", 0))

    def _addresses(self) -> torch.Tensor | None:
        size = math.prod(self.in_shape)
        if size * 8 > masks.LIMIT:
            return None
        base = torch.arange(size).reshape(self.in_shape)
        if self.name == "view_as_complex":
            return base[..., 0] // 2
        if self.name == "view_as_real":
            return torch.stack((base, base), -1)
        return self._shown(base)

    def _by_address_forward(self, mask: Mask) -> Mask | None:
        if self.widths[0] != self.widths[1]:
            wide, narrow = self.widths
            if wide > narrow:
                return mask.repeat_interleave(wide // narrow, -1) if mask.numel() <= masks.LIMIT else None
            return masks.any_along(mask.reshape(*mask.shape[:-1], -1, narrow // wide), [-1])
        addresses = self._addresses()
        if addresses is None:
            return None
        if self.name == "view_as_complex":
            return masks.any_along(mask, [-1])
        if self.name == "view_as_real":
            return mask.unsqueeze(-1).expand(self.out_shape)
        return mask.reshape(-1)[addresses]

    def _by_address_backward(self, mask: Mask) -> Mask | None:
        if self.name == "view_as_real":
            return masks.any_along(mask, [-1])
        if self.name == "view_as_complex":
            return mask.unsqueeze(-1).expand(self.in_shape)
        addresses = self._addresses()
        if addresses is None:
            return None
        made = torch.zeros(math.prod(self.in_shape), dtype=torch.bool)
        made[addresses[mask]] = True
        return made.reshape(self.in_shape)

    def _width_backward(self, mask: Mask) -> Mask | None:
        # Seen through another element size: the last dimension shrinks or grows by the ratio.
        wide, narrow = self.widths
        if masks.is_everything(mask):
            return masks.everything(self.in_shape)
        if wide > narrow:
            return masks.any_along(mask.reshape(*mask.shape[:-1], -1, wide // narrow), [-1])
        return mask.repeat_interleave(narrow // wide, -1) if math.prod(self.in_shape) <= masks.LIMIT else None
