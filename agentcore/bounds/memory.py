"""What each tensor of a traced run shows: storages, the views of them, and the value that stands in each at present.

A write replaces a storage's value by a new one that keeps what was not written, so values never change.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import torch

from agentcore.bounds import masks
from agentcore.bounds.masks import Mask
from agentcore.bounds.operators import REAL_BYTES
from agentcore.bounds.values import Value, narrower, origin_of
from agentcore.bounds.views import Step

_ATTRIBUTE = "_kernelyard_trace"


@dataclass(slots=True)
class Store:
    """One storage: its present content, the input whose memory it is, and how often it was written."""

    value: Value
    source: str | None = None
    version: int = 0


@dataclass(slots=True)
class Ref:
    """How a tensor shows a storage: through ``steps``, as ``value`` when the storage was at ``version``."""

    memory: Memory
    store: Store
    steps: tuple[Step, ...]
    version: int
    value: Value


class Memory:
    """Values by tensor. ``record``: whether they are followed backwards; ``apart``: whether the content that stands for
    a value is never the storage of the tensor itself."""

    def __init__(self, *, record: bool, apart: bool) -> None:
        self._record = record
        self._apart = apart
        self._orders = itertools.count()

    def new(self, tensor: torch.Tensor, **fields: Any) -> Value:
        value = Value(next(self._orders), tuple(tensor.shape), tensor.dtype, fields.pop("origin", None), **fields)
        if value.origin is None:
            value.origin = origin_of(tensor.dtype)
        return value

    def attach(self, tensor: torch.Tensor, store: Store, steps: tuple[Step, ...], value: Value) -> None:
        setattr(tensor, _ATTRIBUTE, Ref(self, store, steps, store.version, value))

    def ref(self, tensor: torch.Tensor) -> Ref:
        ref: Ref | None = getattr(tensor, _ATTRIBUTE, None)
        if ref is None or ref.memory is not self:
            # Not made under this mode: a constant of the reference's own.
            known = None if tensor.is_meta else tensor
            value = self.new(tensor, known=known)
            self.attach(tensor, Store(value), (), value)
            ref = getattr(tensor, _ATTRIBUTE)
        return ref

    def value(self, tensor: torch.Tensor) -> Value:
        ref = self.ref(tensor)
        if ref.version != ref.store.version:
            value = ref.store.value
            for step in ref.steps:
                value = self.shown(value, step, tensor if step is ref.steps[-1] else None)
            ref.value, ref.version = value, ref.store.version
        return ref.value

    def shown(self, value: Value, step: Step, tensor: torch.Tensor | None) -> Value:
        known, sample = (step.apply(content) for content in (value.known, value.sample))
        origin = value.origin
        if step.widths[0] != step.widths[1] or (tensor is not None and tensor.dtype != value.dtype):
            origin = origin_of(tensor.dtype) if tensor is not None else origin
        made = Value(
            next(self._orders), step.out_shape, tensor.dtype if tensor is not None else value.dtype, origin,
            edges=((value, step.backward),) if value.from_input else (), known=known, sample=sample,
            from_input=value.from_input, routed=value.routed, maybe_zero=value.maybe_zero,
            maybe_excluded=value.maybe_excluded, chained=value.chained,
            entangled=value.entangled,
        )  # fmt: skip
        if known is None:
            made.zero, made.excluded = self._through(step, value.zero), self._through(step, value.excluded)
        return made

    @staticmethod
    def _through(step: Step, fact: Mask | None) -> Mask | None:
        if fact is None or step.widths[0] != step.widths[1]:
            return None
        if step.is_reshape:
            return masks.reshape_at_least(fact, step.out_shape)
        shown = step.forward(fact)
        return masks.everything(step.out_shape) if shown is None else shown

    def put(self, target: torch.Tensor, draft: Value) -> None:
        """Make ``draft`` the present content of what ``target`` shows."""
        ref = self.ref(target)
        store = ref.store
        root = draft
        if ref.steps:
            old = store.value
            chain = [old]
            for step in ref.steps[:-1]:
                chain.append(self.shown(chain[-1], step, None))
            for whole, step in zip(reversed(chain), reversed(ref.steps), strict=True):
                root = self._overwritten(whole, step, root)
            if draft.content is not None and old.content is not None:
                # Without samples the content is the storage itself, where it has one; else facts keep their own.
                apart = target.is_meta or self._apart
                whole_content = _patched(old.content, ref.steps, draft.content) if apart else old.content
                if draft.known is not None and old.known is not None:
                    root.known = whole_content
                else:
                    root.sample = whole_content
        store.value = root
        store.version += 1
        ref.value, ref.version = draft, store.version

    def _overwritten(self, whole: Value, step: Step, part: Value) -> Value:
        """``whole`` with what ``step`` shows of it replaced by ``part``."""
        routed = whole.routed or part.routed
        if not self._record:  # nothing is followed backwards
            return Value(next(self._orders), whole.shape, whole.dtype, whole.origin, routed=routed)

        def of_part(d: Mask) -> Mask | None:
            return step.forward(d)

        covered = step.backward(masks.everything(step.out_shape))

        def of_whole(d: Mask) -> Mask | None:
            return None if covered is None else masks.without(d, covered)

        value = Value(
            next(self._orders), whole.shape, whole.dtype, narrower(whole.origin, part.origin),
            edges=[e for e in ((part, of_part), (whole, of_whole)) if e[0].from_input],
            from_input=whole.from_input or part.from_input, routed=routed,
            maybe_zero=whole.maybe_zero or part.maybe_zero, maybe_excluded=whole.maybe_excluded or part.maybe_excluded,
        )  # fmt: skip
        if not whole.from_input:
            value.origin = part.origin
        value.before, value.kept = whole, of_whole
        if part.known is None:
            whole.learn()
        if covered is not None and part.known is None and (whole.zero is not None or whole.excluded is not None):
            self._merge_facts(value, whole, step, part, covered)
        return value

    @staticmethod
    def _merge_facts(value: Value, whole: Value, step: Step, part: Value, covered: Mask) -> None:
        for fact in ("zero", "excluded"):
            old = masks.without(getattr(whole, fact), covered)
            new = getattr(part, fact)
            if new is not None:
                new = step.backward(new)
            setattr(value, fact, masks.union(old, new))


def _patched(whole: torch.Tensor, steps: tuple[Step, ...], part: torch.Tensor) -> torch.Tensor | None:
    """A copy of ``whole`` with what ``steps`` show of it replaced by ``part``."""
    if whole.numel() * whole.dtype.itemsize > REAL_BYTES:
        return None
    made = whole.clone(memory_format=torch.contiguous_format)
    shown: Any = made
    for step in steps:
        shown = step.apply(shown)
    shown.copy_(part)
    return made
