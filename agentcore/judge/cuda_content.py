"""What the calls of a GPU batch compute on: drawn in private, published only once the calls are enqueued, then checked.

Fresh inputs for every call are made in memory the runner never maps, while the runner is idle and the GPU is ours;
publishing is one copy. The same private copies later serve the references and tell whether an input was changed. Slots
are handled many at a time. While the runner's grids hold the GPU nothing is done but copies, which are waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

import numpy as np
import torch

from agentcore.judge.buffers import SlotBuffers
from agentcore.judge.cuda_copies import Copier, pinned
from agentcore.judge.device_page import proof_positions
from agentcore.judge.layout import GUARD_BYTES, Layout, Parameter, as_bits, detects_poison, leftover, poison_for
from agentcore.judge.measurement import Measurement, Verifier
from agentcore.problems.tensors import Value
from agentcore.vocabulary import CheckName

PROOF_OUTPUTS = 8
LOOK_BYTES, EARLY_LOOK_BYTES = 1 << 20, 1 << 16
"""How much of an output is fetched behind a call, and before it: what is there too early is rows, if not all of it."""
EARLY_LOOKS, WHOLE_LOOKS = 3, 2
"""In how many pairs of a batch outputs are looked at before the calls, and in how many all of them are kept behind,
which costs a turn. Work that is late in half of the pairs, as it must be to count, escapes two batches once in fifty
times.
"""
KEPT_SLOTS = 2 * WHOLE_LOOKS
ROW_BYTES = 16
"""Rows of copies begin at multiples of this, and are copied and compared in words where buffers allow it."""


class SettledOutputs(SlotBuffers):
    """The judge's own copy of all outputs and their guards, as they were at one moment: the runner has no part in it.
    """

    def __init__(self, buffers: SlotBuffers) -> None:
        super().__init__(buffers.layout)
        self._raw = {p.name: torch.empty_like(_whole(buffers, p)) for p in buffers.layout.outputs}

    def take(self, buffers: SlotBuffers) -> None:
        """Copy what stands in ``buffers`` now."""
        for p in self.layout.outputs:
            self._raw[p.name].copy_(_whole(buffers, p))


class BatchContent:
    """Inputs and outputs of one workload's slots. One random poison and guard per output and batch."""

    def __init__(
        self, buffers: SlotBuffers, verifier: Verifier, measurement: Measurement, copier: Copier | None = None
    ) -> None:
        self.buffers, self.verifier, self.measurement = buffers, verifier, measurement
        self.inputs = [p for p in buffers.layout.inputs if p.nbytes]
        self.outputs = [p for p in buffers.layout.outputs if p.nbytes]
        self.judged = [p for p in self.outputs if detects_poison(p.dtype)]
        self._device = device = verifier.factory.device
        slots = buffers.layout.slots
        self._private = {p.name: _rows(slots, p, device) for p in self.inputs}
        self._empty = {
            p.name: torch.empty(p.shape, dtype=p.dtype, device=device) for p in buffers.layout.inputs if not p.nbytes
        }
        self._patterns: dict[str, tuple[int, int]] = {}
        self._copier = copier
        # Pinned here, because to pin memory while a grid holds the GPU might wait for that.
        self._largest = min(max((p.nbytes for p in self.outputs), default=0), LOOK_BYTES)
        self._landings = [] if copier is None else [
            pinned((self._largest,)) for _ in range((slots + 2 * EARLY_LOOKS) * len(self.outputs))
        ]
        self._settled = SettledOutputs(buffers)
        self._given = buffers
        """Where the outputs of calls are read: what the runner shares, once they are settled the judge's copy of it."""
        self._large = _large(self.outputs)
        self._copies = {p.name: _rows(KEPT_SLOTS, p, device) for p in self._large}
        self._kept: list[int] = []  # slots, in the order of the rows
        self._landed = 0
        self._looks: dict[int, list[tuple[Parameter, int, torch.Tensor]]] = {}
        self._early: list[tuple[Parameter, int, torch.Tensor]] = []

    # -- before the calls ------------------------------------------------------------------------------------------

    def draw(self, slots: Iterable[int]) -> None:
        """New secret content for every slot, in private."""
        for slot in slots:
            self._keep(slot, self.verifier.inputs(self.verifier.draw_seed()))

    def draw_same(self, slots: Iterable[int]) -> dict[str, Value]:
        """One new content for all slots; returns it."""
        base = self.verifier.inputs(self.verifier.draw_seed())
        for slot in slots:
            self._keep(slot, base)
        return base

    def alter(self, slots: Iterable[int], base: Mapping[str, Value]) -> None:
        """Near-duplicates of ``base`` for some slots."""
        for slot in slots:
            self._keep(slot, self.verifier.altered(base))

    def _keep(self, slot: int, inputs: Mapping[str, Value]) -> None:
        for p in self.inputs:
            value = inputs[p.name]
            assert isinstance(value, torch.Tensor)
            self._private[p.name][slot].copy_(value.reshape(-1).view(torch.uint8))

    def poison(self, slots: Sequence[int]) -> None:
        """Fill the outputs of these slots and their guards with fresh patterns."""
        self._looks, self._early, self._landed, self._kept = {}, [], 0, []
        self._given = self.buffers
        span = _span(slots)
        for p in self.outputs:
            pattern, guard = poison_for(p.dtype), poison_for(torch.uint8)
            self.buffers.rows(p, span).fill_(guard)
            self.buffers.elements(p, span).fill_(pattern)
            self._patterns[p.name] = (pattern, guard)

    def publish(self, slots: Iterable[int]) -> None:
        """Copy private inputs to where the runner sees them. Does not wait: they are there after the next wait."""
        for slot in slots:
            for p in self.inputs:
                self.buffers.data(p, slot).copy_(self._private[p.name][slot])

    def publish_held(self, slots: Iterable[int]) -> None:
        """The same while a grid holds the GPU, for inputs whose drawing was waited for."""
        self._copy([
            (self.buffers.data(p, slot), self._private[p.name][slot]) for slot in slots for p in self.inputs
        ])

    def _copy(self, copies: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
        """Begin to copy on the device, (to, from) each, which takes a turn of the judge's."""
        if self._copier is not None:
            self._copier.copy(copies)
            return
        for to, source in copies:
            to.copy_(source)

    # -- around a pair's calls, while a grid holds the GPU: copies alone -----------------------------------------------

    def look(self, slot: int) -> None:
        """Fetch a random piece of a call's outputs at once."""
        self._looks[slot] = [(p, *self._fetch(p, slot, LOOK_BYTES)) for p in self.outputs]
        if self._copier is not None:
            self._copier.wait()

    def keep_outputs(self, slots: Sequence[int]) -> bool:
        """Begin to copy all of some calls' outputs, while a grid holds the GPU. Not those that looks see all of: False
        where there are no others.
        """
        self._copy([
            (self._copies[p.name][row], self.buffers.data(p, slot))
            for row, slot in enumerate(slots, len(self._kept)) for p in self._large
        ])
        self._kept += slots
        return bool(self._large)

    def look_untouched(self, slot: int) -> None:
        """Fetch a random piece of the outputs of a call that has not begun; see :meth:`check_untouched`."""
        self._early += [(p, *self._fetch(p, slot, EARLY_LOOK_BYTES)) for p in self.judged]

    def _fetch(self, p: Parameter, slot: int, nbytes: int) -> tuple[int, torch.Tensor]:
        """(first byte, content) of a random piece of an output, whole elements; there after the next wait."""
        size = min(p.nbytes, nbytes)
        begin = self.verifier.draw_seed() % (p.nbytes - size + 1) // p.dtype.itemsize * p.dtype.itemsize
        piece = self.buffers.data(p, slot)[begin : begin + size]
        if self._copier is None:
            return begin, piece.clone()
        if self._landed == len(self._landings):
            self._landings.append(pinned((self._largest,)))
        host = self._landings[self._landed][:size]
        self._landed += 1
        self._copier.fetch(host, piece)
        return begin, host

    # -- after the calls -------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Before any check: from now on all of them are about the same outputs.

        Between two looks at memory of the runner's it could finish what it had left undone: an output that was still
        what it had been at the end mark when that was asked, and right when it was compared with the reference, which
        takes the judge milliseconds to work out.
        """
        self._settled.take(self.buffers)
        self._given = self._settled

    def check_untouched(self) -> None:
        for p, _begin, host in self._early:
            # By numpy: for so little, torch would wake a thread on every core.
            if np.any(as_bits(host.view(p.dtype)).numpy() != self._patterns[p.name][0]):
                self.measurement.findings.fail(
                    CheckName.FRESH_EVERY_CALL,
                    f"output {p.name!r} of a call was written before the call began",
                )

    def check_all(self, slots: Sequence[int]) -> bool:
        """For every call, at the price of one wait: inputs as they were, guards as they were, outputs written."""
        findings, span = self.measurement.findings, _span(slots)
        columns = [
            *(self._differs(p, span) for p in self.inputs), *(self._guards(p, span) for p in self.outputs),
            *(self._left(p, span) for p in self.judged),
        ]
        found = iter(torch.stack(columns).cpu()) if columns else iter(())
        changed, broken, left = ([(p, next(found)) for p in ps] for ps in (self.inputs, self.outputs, self.judged))
        names = [p.name for p, rows in changed if rows.any()]
        findings.record(
            CheckName.INPUTS_INTACT, not names, f"input {names[0]!r} changed during the calls" if names else ""
        )
        names = [p.name for p, rows in broken if rows.any()]
        findings.record(
            CheckName.GUARDS_INTACT, not names, f"bytes around output {names[0]!r} were overwritten" if names else ""
        )
        suspects = [(p, span.start + row) for p, rows in left for row in rows.nonzero().flatten().tolist()]
        if not suspects:
            findings.record(CheckName.OUTPUTS_WRITTEN, True)
        for p, slot in suspects:
            self._report_unwritten(p, slot)
        return not findings.failed

    def check_proofs(self, proofs: Mapping[int, tuple[int, bytes]]) -> None:
        """The words each end mark carried must be the ones that stand in its outputs now. Keys are slots."""
        outputs = self.buffers.layout.outputs[:PROOF_OUTPUTS]  # empty ones too: the runner counts them
        words = [p.nbytes // 4 for p in outputs]
        if any(words) and proofs:
            which, word = proof_positions(np.array([seed for seed, _ in proofs.values()], dtype=np.uint64), words)
            carried = np.frombuffer(b"".join(proof for _, proof in proofs.values()), dtype=np.int32).reshape(word.shape)
            slots = np.array(list(proofs), dtype=np.int64)[:, None]
            for index, p in enumerate(outputs):
                if not words[index]:
                    continue
                chosen = which == index
                where = ((slots * p.stride + p.offset) // 4 + word)[chosen]
                now = self._given.raw(p).view(torch.int32)[torch.from_numpy(where).to(self._device)].cpu().numpy()
                if not np.array_equal(now, carried[chosen]):
                    self.measurement.findings.fail(
                        CheckName.COMPLETE_ON_TIME,
                        f"output {p.name!r} was not finished when a call's end mark appeared",
                    )
                    return
        self.measurement.findings.record(CheckName.COMPLETE_ON_TIME, True)

    def check_looks(self) -> None:
        """What was fetched, or kept, right after a pair's calls must be what stands there now."""
        looks = [(slot, *look) for slot, found in self._looks.items() for look in found]
        looks += [
            (slot, p, 0, self._copies[p.name][row]) for row, slot in enumerate(self._kept) for p in self._large
        ]
        if not looks:
            return
        changed = torch.stack([
            _differ(self._given.data(p, slot)[begin : begin + len(seen)], seen.to(self._device, non_blocking=True))
            for slot, p, begin, seen in looks
        ]).tolist()
        for (_slot, p, _begin, _seen), late in zip(looks, changed, strict=True):
            if late:
                self.measurement.findings.fail(
                    CheckName.COMPLETE_ON_TIME, f"output {p.name!r} changed after the call's end mark"
                )

    def check_calls(self, slots: Sequence[int], names: Sequence[str]) -> bool:
        """The outputs of some calls against the references for their inputs."""
        calls = [(self.kept(slot), self.results(slot), name) for slot, name in zip(slots, names, strict=True)]
        return self.verifier.check_all(self.measurement, calls)

    def check_echo(self, slots: Iterable[int], base: Mapping[str, Value]) -> bool:
        """Near-duplicate calls' outputs, where they must differ from the answer to ``base``."""
        earlier = self.verifier.factory.reference(base, self.verifier.workload)
        return all(
            self.verifier.check_altered(self.measurement, earlier, self.kept(slot), self.results(slot))
            for slot in slots
        )

    def kept(self, slot: int) -> dict[str, Value]:
        """A slot's inputs from the private copy, scalars included, in no particular order."""
        made: dict[str, Value] = {**self.verifier.scalars(), **self._empty}
        for p in self.inputs:
            made[p.name] = self._private[p.name][slot].view(p.dtype).reshape(p.shape)
        return made

    def results(self, slot: int) -> dict[str, torch.Tensor]:
        return {p.name: self._given.view(p, slot) for p in self.buffers.layout.outputs}

    def _differs(self, p: Parameter, span: range) -> torch.Tensor:
        return _differ(self.buffers.rows(p, span)[:, : p.nbytes], self._private[p.name][span.start : span.stop])

    def _guards(self, p: Parameter, span: range) -> torch.Tensor:
        rows, guard = self._given.rows(p, span), self._patterns[p.name][1]
        before, after = rows[:, :GUARD_BYTES] != guard, rows[:, GUARD_BYTES + p.nbytes :] != guard
        return before.any(dim=1) | after.any(dim=1)

    def _left(self, p: Parameter, span: range) -> torch.Tensor:
        return (self._given.elements(p, span) == self._patterns[p.name][0]).any(dim=1)

    def _report_unwritten(self, p: Parameter, slot: int) -> None:
        """An integer result may be the poison's value by chance: only where the reference is not."""
        reference = self.verifier.factory.reference(self.kept(slot), self.verifier.workload)[p.name]
        output = self._given.view(p, slot)
        if left := leftover(output, self._patterns[p.name][0], reference):
            self.measurement.findings.fail(
                CheckName.OUTPUTS_WRITTEN, f"{left} of {output.numel()} elements of output {p.name!r} never written"
            )


def held_bytes(layout: Layout) -> tuple[int, int]:
    """The device memory of a BatchContent: (bytes for each slot, bytes besides)."""
    return (
        sum(_row_bytes(p) for p in layout.inputs) + sum(p.stride for p in layout.outputs),
        KEPT_SLOTS * sum(_row_bytes(p) for p in _large(layout.outputs)),
    )


def _large(outputs: Iterable[Parameter]) -> list[Parameter]:
    """Those of which a look does not see all."""
    return [p for p in outputs if p.nbytes > LOOK_BYTES]


def _whole(buffers: SlotBuffers, p: Parameter) -> torch.Tensor:
    """All slots of a parameter, without what the memory has behind them."""
    return buffers.raw(p)[: p.stride * buffers.layout.slots]


def _row_bytes(p: Parameter) -> int:
    return -(-p.nbytes // ROW_BYTES) * ROW_BYTES


def _rows(count: int, p: Parameter, device: torch.device | str) -> torch.Tensor:
    """Memory for copies of a parameter, one a row."""
    return torch.empty((count, _row_bytes(p)), dtype=torch.uint8, device=device)[:, : p.nbytes]


def _differ(here: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
    """Whether bytes differ, for each row of two tensors that have some: in 64-bit words as far as these go."""
    aligned = here.storage_offset() % 8 == there.storage_offset() % 8 == 0
    end = here.shape[-1] // 8 * 8 if aligned else 0
    parts = [(here[..., end:], there[..., end:])]
    if end:
        parts.append((here[..., :end].view(torch.int64), there[..., :end].view(torch.int64)))
    return reduce(torch.logical_or, [(a != b).any(dim=-1) for a, b in parts if a.shape[-1]])


def _span(slots: Sequence[int]) -> range:
    """The range that ``slots``, in whatever order, make up."""
    span = range(min(slots), max(slots) + 1)
    assert len(span) == len(set(slots)), "slots handled together must lie side by side"
    return span
