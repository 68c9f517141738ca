"""Run a reference without its content and record what it computes, as values that were made from other values.

Float tensors have no content (they live on torch's meta device). Integer and boolean ones that follow from shapes,
scalars and the workload's index tensors are computed for real, so that loops over sequences, gathers and masks are
followed exactly. For references whose routing follows from floats, ``real`` computes everything, and ``sampled`` what
is small enough.
The mode only records; what the record means for a bound is decided in ``agentcore.bounds.demand`` and ``count``.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from agentcore.bounds import products
from agentcore.bounds.facts import conclude
from agentcore.bounds.memory import Memory, Store
from agentcore.bounds.operators import (
    AS_QUICK,
    CONSTANTS,
    KEEPS,
    LINEAR,
    REAL_BYTES,
    ROUTING,
    SAME_VALUES,
    SAMPLED,
    SHAPED_BY_CONTENT,
    VISIBLE,
    Operation,
    bare,
    constant,
    described,
    filler,
    is_four_bits,
    is_random_data,
    is_routed,
    out_of_place,
    replaced,
    same_geometry,
)
from agentcore.bounds.values import ORIGINS, Call, Policy, Value, narrower, origin_of
from agentcore.bounds.views import UNCHANGED, Step

__all__ = ["ORIGINS", "DataDependent", "Trace"]

SAMPLED_WORK = 10**11
"""Multiply-adds that one trace may spend on drawn content: a second or two."""

_TERMS_PER_ELEMENT = 32
"""What passing over one element costs, in multiply-adds of a product."""


class DataDependent(RuntimeError):
    """The reference's work depends on content that a tensor without content does not have."""


class Trace(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's is untyped
    """Records values in order. Register every input with :meth:`watch` before running the reference under it."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Nothing here is compiled; without this, torch imports its compiler on first use (three seconds).
        return False

    def __init__(self, *, real: bool = False, sampled: bool = False, record: bool = True) -> None:
        """``real``: every operation is computed, and every branch is the true one. ``sampled``: operations on drawn
        content are computed as long as they are small and do not come to too much together.

        ``record``: False follows content alone, for code whose work is not counted.
        """
        super().__init__()  # type: ignore[no-untyped-call]
        self.assumed: list[str] = []
        self.policy = Policy()
        self.real = real
        self.sampled = sampled
        self.record = record
        self.memory = Memory(record=record, apart=real or sampled)
        self._to_spend = SAMPLED_WORK
        self._nothing = torch.empty(0)

    def watch(
        self, name: str, tensor: torch.Tensor, known: torch.Tensor | None = None, sample: torch.Tensor | None = None
    ) -> None:
        """Follow ``tensor`` as input ``name``; ``known`` is its content where it is an index or a mask, ``sample`` one
        that was drawn for it."""
        value = self.memory.new(tensor, from_input=True, source=name, known=known, sample=sample)
        self.memory.attach(tensor, Store(value, name), (), value)

    def content(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The tensor's content where it is known, else None."""
        return self._known(tensor)

    def is_drawn(self, tensor: torch.Tensor) -> bool:
        """Whether randomness had a part in the tensor's content (of a trace that does not record)."""
        return self.memory.value(tensor).routed

    def result(self, tensor: torch.Tensor) -> Value:
        """The present content of a tensor."""
        return self.memory.value(tensor)

    def storage(self, tensor: torch.Tensor) -> tuple[Store, tuple[Step, ...]]:
        """The storage of a tensor, and the views that lead from it to what the tensor shows."""
        ref = self.memory.ref(tensor)
        return ref.store, ref.steps

    def _known(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Content to compute with: the tensor's own, or what stands for it."""
        if self.real:
            return tensor
        return self.memory.value(tensor).content

    # ---- operations

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        operation = described(func)
        if operation.name == "_local_scalar_dense":
            return self._read(args[0])
        if operation.composite:
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        if operation.decomposition is not None:
            with self:
                return operation.decomposition(*args, **kwargs)
        if operation.is_view or operation.in_place_view:
            return self._view(operation, func, args, kwargs)
        call = Call(operation.name, func, args, kwargs, self._nothing, 0, self.memory.value, self.policy)
        if operation.writes:
            return self._write(operation, call)
        result, computed = self._compute(operation, call)
        results = list(result) if isinstance(result, list | tuple) else [result]
        for index, out in enumerate(results):
            if isinstance(out, torch.Tensor):
                made = Call(call.name, func, args, kwargs, out, index, self.memory.value, self.policy)
                value = self._record(operation, made, computed)
                self.memory.attach(out, Store(value), (), value)
        return result

    def _read(self, tensor: torch.Tensor) -> bool | int | float:
        known = self._known(tensor)
        if known is not None:
            number: bool | int | float = known.item()
            return number
        if tensor.dtype == torch.bool:
            self.assumed.append("a branch on computed content is taken as false")
            return False
        if tensor.dtype.is_floating_point:
            self.assumed.append("a number read back from computed content is taken as 1.0")
            return 1.0
        raise DataDependent("it reads an integer back from computed content")

    def _view(self, operation: Operation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        base = args[0]
        shape, ref, width = tuple(base.shape), self.memory.ref(base), base.dtype.itemsize
        value = self.memory.value(base)
        result = func(*args, **kwargs)
        if operation.name in UNCHANGED:
            self.memory.attach(result, ref.store, ref.steps, value)
            return result
        shower = out_of_place(func) if operation.in_place_view else func
        many = isinstance(result, list | tuple)
        for index, out in enumerate(result if many else [result]):
            step = Step(shower, operation.name, args[1:], kwargs, index if many else None, shape, tuple(out.shape),
                        (width, out.dtype.itemsize))  # fmt: skip
            shown = self.memory.shown(value, step, out)
            self.memory.attach(out, ref.store, (*ref.steps, step), shown)
        return result

    def _compute(self, operation: Operation, call: Call) -> tuple[Any, bool]:
        """The result, and whether it was computed for real."""
        if self.real:
            return call.func(*call.args, **call.kwargs), True
        tensors = call.tensors
        if call.name in CONSTANTS or not tensors:
            return self._make(operation, call)
        known = [self._known(t) for t in tensors]
        if all(k is not None for k in known) and not operation.random:
            contents = iter([k for k in known if k is not None])
            args, kwargs = replaced(call.args, contents), replaced(call.kwargs, contents)
            kwargs.pop("device", None)
            few = max((k.numel() for k in known if k is not None), default=0) <= 4096
            if (few or self._is_small(call)) and self._is_affordable(call):
                return call.func(*args, **kwargs), True
        return self._without_content(call), False

    def _is_small(self, call: Call) -> bool:
        try:
            result = self._without_content(call)
        except DataDependent:
            return True
        outs = result if isinstance(result, list | tuple) else [result]
        return all(o.numel() * o.dtype.itemsize <= REAL_BYTES for o in outs if isinstance(o, torch.Tensor))

    def _is_affordable(self, call: Call) -> bool:
        """Whether an operation on drawn content is worth computing, which is then taken off what may be spent."""
        if not self.sampled or all(self.memory.value(t).known is not None for t in call.tensors):
            return True
        result = self._without_content(call) if call.name not in SHAPED_BY_CONTENT else call.tensors[0]
        outs = result if isinstance(result, list | tuple) else [result]
        cost = sum(t.numel() for t in (*call.tensors, *outs) if isinstance(t, torch.Tensor)) * _TERMS_PER_ELEMENT
        packet = call.func._overloadpacket
        if packet in flop_registry:
            cost += int(flop_registry[packet](*call.args, **call.kwargs, out_val=outs[0]))
        self._to_spend -= min(cost, self._to_spend)
        return self._to_spend > 0

    def _make(self, operation: Operation, call: Call) -> tuple[Any, bool]:
        """A tensor from shapes and numbers alone. Small ones and integers are real, large constants one number."""
        kwargs = {k: v for k, v in call.kwargs.items() if k not in ("device", "pin_memory")}
        if "generator" in kwargs:
            kwargs["generator"] = None
        args = replaced(call.args, iter([bare(t) for t in call.tensors]))
        takes_device = any(a.name == "device" for a in call.func._schema.arguments)
        shape_only = call.func(*args, **kwargs, **({"device": "meta"} if takes_device else {}))
        if not isinstance(shape_only, torch.Tensor):
            return shape_only, False
        small = shape_only.numel() <= VISIBLE
        if call.name in CONSTANTS:
            if small:
                args = replaced(call.args, iter([bare(t) for t in call.tensors]))
                made = torch.empty_strided(shape_only.shape, shape_only.stride(), dtype=shape_only.dtype)
                return made.fill_(filler(call)), True
            return shape_only, False
        if operation.random and self._is_data(shape_only, call):
            return shape_only, False
        if takes_device and shape_only.numel() * shape_only.dtype.itemsize <= REAL_BYTES and not call.tensors:
            if "generator" in call.kwargs:
                kwargs["generator"] = call.kwargs["generator"]
            return call.func(*args, **kwargs, device="cpu"), True
        return shape_only, False

    def _is_data(self, tensor: torch.Tensor, call: Call) -> bool:
        """Whether random content is not worth drawing. Small floats are where only content matters: they may become
        indices."""
        few = SAMPLED if self.sampled else VISIBLE
        if not self.record and tensor.dtype.is_floating_point and tensor.numel() <= few:
            return False
        return is_random_data(tensor, call)

    def _without_content(self, call: Call) -> Any:
        quick = same_geometry(call)
        if quick is not None:
            return quick
        contents = iter([bare(t) for t in call.tensors])
        args, kwargs = list(replaced(call.args, contents)), replaced(call.kwargs, contents)
        if "device" in kwargs:
            kwargs["device"] = torch.device("meta")
        if call.name == "index":
            args[1] = [self._positions(given, plain) for given, plain in zip(call.args[1], args[1], strict=True)]
            args[1] = [p for group in args[1] for p in group]
        if call.name in SHAPED_BY_CONTENT:
            raise DataDependent(f"the shape of {call.name}'s result depends on computed content")
        try:
            quicker = AS_QUICK.get(call.func)
            return (quicker if quicker and call.tensors[0].is_floating_point() else call.func)(*args, **kwargs)
        except NotImplementedError as error:
            raise DataDependent(f"{call.func} cannot run without content") from error

    def _positions(self, given: torch.Tensor | None, plain: torch.Tensor | None) -> list[torch.Tensor | None]:
        if given is None or given.dtype not in (torch.bool, torch.uint8):
            return [plain]
        known = self._known(given)
        if known is None:
            raise DataDependent("a boolean index made from computed content selects a number of elements")
        return [p.to("meta") for p in known.nonzero(as_tuple=True)]

    def _write(self, operation: Operation, call: Call) -> Any:
        """An operation that writes into one or more of its arguments."""
        targets = [call.args[i] if i < len(call.args) else call.kwargs[n] for i, n in operation.writes
                   if i < len(call.args) or n in call.kwargs]  # fmt: skip
        known = [self._known(t) for t in call.tensors]
        computable = all(k is not None for k in known) and not (operation.random and self._is_data(targets[0], call))
        snapshot = [self.memory.value(t) for t in targets]
        call.out, position = targets[0], 0
        drafts = []
        for position, target in enumerate(targets):
            made = Call(call.name, call.func, call.args, call.kwargs, target, position, self.memory.value, self.policy)
            drafts.append(self._draft(operation, made))
        visible = self.real or (computable and all(not t.is_meta for t in call.tensors))
        result: Any = targets[0] if len(targets) == 1 else tuple(targets)
        if visible:
            result = call.func(*call.args, **call.kwargs)
        for target, draft, before in zip(targets, drafts, snapshot, strict=True):
            if self.record and call.name in KEEPS and not call.argument("accumulate", False):
                draft.before, draft.kept = before, next((e for v, e in draft.edges if v is before), None)
            if visible:
                self._hold(draft, operation, target)
            elif computable and not self.real and len(targets) == 1:
                self._compute_copy(operation, call, draft, before, known)
            elif call.name in ("fill", "zero") and not isinstance(call.argument("value", 0), torch.Tensor):
                draft.known = torch.full((), call.argument("value", 0), dtype=target.dtype).expand(tuple(target.shape))
            self.memory.put(target, draft)
        return result

    def _compute_copy(self, operation: Operation, call: Call, draft: Value, before: Value, known: Any) -> None:
        """Apply a write to the content that stands for a tensor without content of its own."""
        if before.content is None or math.prod(before.shape) * before.dtype.itemsize > REAL_BYTES:
            return
        own = before.content.clone(memory_format=torch.contiguous_format)
        contents = iter([own if t is call.out else k for t, k in zip(call.tensors, known, strict=True)])
        args, kwargs = replaced(call.args, contents), replaced(call.kwargs, contents)
        call.func(*args, **kwargs)
        self._hold(draft, operation, own)

    # ---- recording

    @staticmethod
    def _chain(call: Call, value: Value, operands: list[Value]) -> None:
        """Follow which batched products a value is a linear image of."""
        if value.product is not None:
            products.mark_avoidable(call, value.product)
            value.chained = (value.product,) if value.product.skippable else ()
            return
        value.entangled = any(o.entangled or (o.chained and call.name not in LINEAR) for o in operands)
        # Weighting by what is no linear image of a product itself (a softmax) ties the two orders together.
        if call.name in LINEAR and not value.entangled:
            value.chained = tuple(dict.fromkeys(p for o in operands for p in o.chained))[:16]

    def _record(self, operation: Operation, call: Call, computed: bool) -> Value:
        value = self._draft(operation, call, computed and not self.real)
        if call.name in CONSTANTS:
            value.known = call.out if computed and not self.real and not self.sampled else constant(call)
        elif computed:
            self._hold(value, operation, call.out)
        return value

    def _hold(self, value: Value, operation: Operation, content: torch.Tensor) -> None:
        """Keep computed content as what is known, or as a sample."""
        if self._may_be_known(value, operation, content):
            value.known = content
        elif self.sampled:
            value.sample = content

    def _may_be_known(self, value: Value, operation: Operation, out: torch.Tensor) -> bool:
        if not self.real and not (self.sampled and self.record):
            return True
        if operation.name in ROUTING and not out.dtype.is_floating_point and out.dtype != torch.bool:
            return True
        return value.settled and not operation.random

    def _draft(self, operation: Operation, call: Call, computed: bool = False) -> Value:
        """The value of a result, with its edges, facts and products, but without content (``computed``: it has one)."""
        if call.name in CONSTANTS:
            value = self.memory.new(call.out)
            value.origin = None
            return value
        if not self.record:
            operands = [self.memory.value(t) for t in call.tensors]
            return self.memory.new(
                call.out, settled=all(o.known is not None for o in operands),
                routed=operation.random or any(o.routed for o in operands),
            )  # fmt: skip
        edges = operation.rule(call)
        operands = [call.value(t) for t in call.tensors]
        origin: str | None = None
        if call.name in SAME_VALUES or not call.out.dtype.is_floating_point:
            for operand in operands:
                origin = narrower(origin, operand.origin)
        if is_four_bits(call):
            origin = "fp4"
        # What has been rounded to a narrower type is exact there.
        origin = narrower(origin, origin_of(call.out.dtype))
        value = self.memory.new(
            call.out, origin=origin, edges=[e for e in edges if e[0].from_input],
            from_input=any(o.from_input for o in operands),
        )  # fmt: skip
        value.settled = all(o.known is not None for o in operands)
        value.product = products.product_of(call)
        value.routed = is_routed(operation, call, operands)
        self._chain(call, value, operands)
        if not (computed and self._may_be_known(value, operation, call.out)):
            conclude(call, value)
        return value
