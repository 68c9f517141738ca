"""Watch a reference run and note what it must do: products by operand origin, and which input elements it reads.

The mode sees every tensor operation, on fake tensors (no content) as well as on real ones. It only records; what the
record means for a bound is decided in ``agentcore.bounds.count``.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry
from torch.utils.weak import WeakIdKeyDictionary

from agentcore.bounds.regions import View

# Origins from the narrowest to the widest: a product runs at the rate of its wider operand's origin.
ORIGINS = ("fp4", "fp8", "half", "fp32", "fp64")

_SAME_VALUES = frozenset(
    [
        "_to_copy", "clone", "copy", "copy_", "contiguous", "_unsafe_view", "_reshape_alias", "view_copy",
        "neg", "abs", "mul", "mul_", "div", "div_", "relu", "relu_", "cat", "stack", "where", "masked_fill",
        "masked_fill_", "index", "index_select", "gather", "embedding", "repeat", "repeat_interleave", "flip",
        "roll", "constant_pad_nd", "tril", "triu", "clamp", "clamp_min", "maximum", "minimum", "sort", "topk",
        "max", "min", "slice_scatter", "select_scatter", "index_put", "index_put_", "scatter", "scatter_",
    ]
)
"""Operations that select, move, cast or scale values: a kernel can do the product first, at the source's width."""

_PLAIN_COPIES = frozenset(["_to_copy", "clone", "contiguous", "_unsafe_view", "_reshape_alias", "view_copy"])
_GATHERS = frozenset(["index", "index_select", "gather", "embedding", "take"])
_SHAPE_ONLY = ("new_", "empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like")
_MASKS = frozenset(["masked_fill", "masked_fill_", "where", "tril", "triu", "tril_", "triu_"])
_CONSTANTS = frozenset(["zeros", "ones", "full", "empty", "arange", "eye", "scalar_tensor", "empty_strided"])


@dataclass(slots=True)
class Product:
    """Multiply-adds of one operation: ``flops`` (two per multiply-add) at ``origin`` of its wider operand."""

    flops: int
    origin: str
    skippable: bool


@dataclass(slots=True)
class Event:
    """One operation that computes something: the buffers it wrote and read, and what that cost."""

    name: str
    wrote: frozenset[int]
    read: frozenset[int]
    views: list[tuple[str, View]] = field(default_factory=list)
    gathered: list[str] = field(default_factory=list)
    product: Product | None = None


@dataclass(slots=True)
class _Tracked:
    """What is known of a tensor: its buffer, its values' origin, and the input it shows (``shift`` elements on)."""

    buffer: int
    origin: str | None
    source: str | None = None
    shift: int = 0


class Trace(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's is untyped
    """Records events in order. Register every input with :meth:`watch` before running the reference under it."""

    def __init__(self, assume_scalars: bool) -> None:
        """``assume_scalars`` answers a branch on a tensor's content with False, and a float's content with 1.0."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.events: list[Event] = []
        self.masked = False
        self.assumed: list[str] = []
        self._assume_scalars = assume_scalars
        self._tracked: MutableMapping[torch.Tensor, _Tracked] = WeakIdKeyDictionary()
        self._buffers = 0

    def watch(self, name: str, tensor: torch.Tensor) -> None:
        """Follow the contiguous ``tensor`` as input ``name``."""
        self._tracked[tensor] = _Tracked(self._new_buffer(), _origin_of(tensor.dtype), name)

    def live(self, outputs: list[torch.Tensor]) -> Iterator[Event]:
        """The events that ``outputs`` depend on, last first, and a reading of each output that shows an input."""
        needed = {self._info(output).buffer for output in outputs}
        views = [(info.source, _view(output, info)) for output in outputs if (info := self._info(output)).source]
        yield Event("return", frozenset(), frozenset(), [(source, view) for source, view in views if source])
        for event in reversed(self.events):
            if event.wrote & needed:
                needed |= event.read
                yield event

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.partition("::")[2]
        if self._assume_scalars and name == "_local_scalar_dense":
            return self._assume(args[0])
        packet = func._overloadpacket
        if packet not in flop_registry and func is not torch.ops.prim.device.default:
            with self:
                decomposed = func.decompose(*args, **kwargs)
            if decomposed is not NotImplemented:
                return decomposed
        result = func(*args, **kwargs)
        self._record(func, name, args, kwargs, result)
        return result

    def _record(self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        results = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        schema = func._schema
        mutable = schema.is_mutable
        aliases = any(r.alias_info is not None for r in schema.returns)
        if aliases and not mutable:
            for out in results:
                self._follow_view(inputs, out)
            return
        if name.startswith(_SHAPE_ONLY):
            inputs = []
        known = [self._info(tensor) for tensor in inputs]
        if name in _MASKS:
            self.masked = True
        origin = self._result_origin(name, known)
        written: list[torch.Tensor] = []
        if mutable:
            bound = [*zip(schema.arguments, args, strict=False), *((a, kwargs.get(a.name)) for a in schema.arguments)]
            for argument, value in bound:
                if argument.alias_info is not None and argument.alias_info.is_write:
                    written += [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]
        for tensor in written:
            info = self._info(tensor)
            info.origin = _narrower(info.origin, origin)
        event = Event(name, frozenset(), frozenset(info.buffer for info in known))
        copied = name in _PLAIN_COPIES and len(results) == 1 and self._follow_copy(inputs[0], results[0])
        if not copied:
            data = inputs[0] if name in _GATHERS and inputs else None
            for tensor, info in zip(inputs, known, strict=True):
                if info.source is None:
                    continue
                if tensor is data:
                    event.gathered.append(info.source)
                else:
                    event.views.append((info.source, _view(tensor, info)))
        for out in results:
            if out not in self._tracked:
                self._tracked[out] = _Tracked(self._new_buffer(), None if name in _CONSTANTS else origin)
                if name not in _CONSTANTS and origin is None:
                    self._tracked[out].origin = _origin_of(out.dtype)
        event.wrote = frozenset(self._info(t).buffer for t in (*results, *written))
        event.product = self._product(func, name, args, kwargs, result, known)
        self.events.append(event)

    def _assume(self, tensor: torch.Tensor) -> bool | float:
        if tensor.dtype == torch.bool:
            self.assumed.append("a branch on computed content is taken as false")
            return False
        if tensor.dtype.is_floating_point:
            self.assumed.append("a number read back from computed content is taken as 1.0")
            return 1.0
        raise DataDependent("it reads an integer back from computed content")

    def _result_origin(self, name: str, known: list[_Tracked]) -> str | None:
        if name not in _SAME_VALUES:
            return None
        found: str | None = None
        for info in known:
            found = _narrower(found, info.origin)
        return found

    def _product(
        self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, known: list[_Tracked]
    ) -> Product | None:
        flops: int | None = None
        batched = "bmm" in name
        if "attention" in name and "backward" not in name:
            flops, batched = _attention_flops(func, args, kwargs), False
        elif func._overloadpacket in flop_registry:
            flops = int(flop_registry[func._overloadpacket](*args, **kwargs, out_val=result))
        if not flops:
            return None
        skip = 1 if name in ("addmm", "baddbmm", "addmv") else 0
        origin: str | None = None
        for info in known[skip : skip + (3 if "attention" in name else 2)]:
            origin = _wider(origin, info.origin)
        return Product(flops, origin or "half", skippable=batched)

    def _follow_view(self, inputs: list[torch.Tensor], out: torch.Tensor) -> None:
        base = self._info(inputs[0])
        if out in self._tracked:
            return
        same_width = out.dtype.itemsize == inputs[0].dtype.itemsize
        if base.source is not None and not same_width:
            # Seen through another element size the geometry is lost: count the whole view as read.
            self.events.append(
                Event("view", frozenset([base.buffer]), frozenset(), [(base.source, _view(inputs[0], base))])
            )
        origin = base.origin if out.dtype == inputs[0].dtype else _origin_of(out.dtype)
        self._tracked[out] = _Tracked(base.buffer, origin, base.source if same_width else None, base.shift)

    def _follow_copy(self, tensor: torch.Tensor, out: torch.Tensor) -> bool:
        """Let a dense copy of (part of) an input stand for it, so that slices taken after a cast count as slices."""
        info = self._info(tensor)
        if info.source is None or tensor.numel() != out.numel() or not (tensor.is_contiguous() and out.is_contiguous()):
            return False
        self._tracked[out] = _Tracked(
            self._new_buffer(), info.origin, info.source, info.shift + int(tensor.storage_offset())
        )
        return True

    def _info(self, tensor: torch.Tensor) -> _Tracked:
        info = self._tracked.get(tensor)
        if info is None:
            info = self._tracked[tensor] = _Tracked(self._new_buffer(), _origin_of(tensor.dtype))
        return info

    def _new_buffer(self) -> int:
        self._buffers += 1
        return self._buffers


class DataDependent(RuntimeError):
    """The reference's work depends on content that a fake tensor does not have."""


def _view(tensor: torch.Tensor, info: _Tracked) -> View:
    return View.of(int(tensor.storage_offset()) + info.shift, tuple(tensor.shape), tuple(tensor.stride()))


def _origin_of(dtype: torch.dtype) -> str:
    if dtype == torch.float64:
        return "fp64"
    if dtype == torch.float32:
        return "fp32"
    if dtype in (torch.float16, torch.bfloat16):
        return "half"
    if "float4" in str(dtype):
        return "fp4"
    return "fp8"


def _narrower(a: str | None, b: str | None) -> str | None:
    if a is None or b is None:
        return a or b
    return min(a, b, key=ORIGINS.index)


def _wider(a: str | None, b: str | None) -> str | None:
    if a is None or b is None:
        return a or b
    return max(a, b, key=ORIGINS.index)


def _attention_flops(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """Both products of one fused attention; half of them (with the diagonal) where it is causal."""
    named = {a.name: v for a, v in zip(func._schema.arguments, args, strict=False)} | kwargs
    query, key, value = args[0], args[1], args[2]
    batch_heads = 1
    for size in query.shape[:-2]:
        batch_heads *= int(size)
    rows, columns = int(query.shape[-2]), int(key.shape[-2])
    pairs = rows * columns
    if named.get("is_causal"):
        pairs = sum(min(row + 1, columns) for row in range(rows))
    return 2 * batch_heads * pairs * (int(query.shape[-1]) + int(value.shape[-1]))
