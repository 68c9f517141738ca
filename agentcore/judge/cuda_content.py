"""What the calls of a GPU batch compute on: drawn in private, published only once the calls are enqueued, then checked.

Fresh inputs for every call are made in memory the runner never maps, while the runner is idle and the GPU is ours;
publishing is one copy. The same private copies later serve the references and tell whether an input was changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import torch

from agentcore.judge.cuda_buffers import CudaBuffers
from agentcore.judge.device_page import proof_positions
from agentcore.judge.layout import GUARD_BYTES, Parameter, as_bits, detects_poison, leftover, poison_for
from agentcore.judge.measurement import Measurement, Verifier
from agentcore.problems.tensors import Value
from agentcore.vocabulary import CheckName

PROOF_OUTPUTS = 8
LOOK_BYTES = 1 << 20


class BatchContent:
    """Inputs and outputs of one workload's slots. One random poison and guard per output and batch."""

    def __init__(self, buffers: CudaBuffers, verifier: Verifier, measurement: Measurement) -> None:
        self.buffers, self.verifier, self.measurement = buffers, verifier, measurement
        self.inputs = [p for p in buffers.layout.inputs if p.nbytes]
        self.outputs = [p for p in buffers.layout.outputs if p.nbytes]
        slots = buffers.layout.slots
        self._private = {
            p.name: torch.empty((slots, p.nbytes), dtype=torch.uint8, device="cuda") for p in self.inputs
        }
        self._empty = {
            p.name: torch.empty(p.shape, dtype=p.dtype, device="cuda") for p in buffers.layout.inputs if not p.nbytes
        }
        self._patterns: dict[str, tuple[int, int]] = {}
        self._looks: dict[int, list[tuple[Parameter, int, torch.Tensor]]] = {}

    # -- before the calls ------------------------------------------------------------------------------------------

    def draw(self, slots: Iterable[int]) -> None:
        """New secret content for every slot, in private."""
        for slot in slots:
            self._keep(slot, self.verifier.inputs(self.verifier.draw_seed()))

    def draw_same(self, slots: list[int]) -> dict[str, Value]:
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

    def poison(self) -> None:
        """Fill every output and its guards with fresh patterns."""
        self._looks = {}
        for p in self.outputs:
            pattern, guard = poison_for(p.dtype), poison_for(torch.uint8)
            self.buffers.raw(p).fill_(guard)
            for slot in range(self.buffers.layout.slots):
                as_bits(self.buffers.view(p, slot)).fill_(pattern)
            self._patterns[p.name] = (pattern, guard)

    def publish(self, slots: Iterable[int]) -> None:
        """Copy private inputs to where the runner sees them, and wait until they are there."""
        for slot in slots:
            for p in self.inputs:
                self.buffers.data(p, slot).copy_(self._private[p.name][slot])
        torch.cuda.synchronize()

    # -- while the runner waits at a gate --------------------------------------------------------------------------

    def look(self, slot: int) -> None:
        """Fetch a random piece of a call's outputs at once, by the copy engine, which needs no turn on the GPU."""
        looks = []
        for p in self.outputs:
            size = min(p.nbytes, LOOK_BYTES)
            begin = self.verifier.draw_seed() % (p.nbytes - size + 1)
            host = torch.empty(size, dtype=torch.uint8, pin_memory=True)
            host.copy_(self.buffers.data(p, slot)[begin : begin + size], non_blocking=True)
            looks.append((p, begin, host))
        torch.cuda.current_stream().synchronize()
        self._looks[slot] = looks

    def untouched(self, slot: int) -> None:
        """A call whose inputs do not exist yet must not have written anything."""
        for p in self.outputs:
            if not detects_poison(p.dtype):
                continue
            if bool((as_bits(self.buffers.view(p, slot)) != self._patterns[p.name][0]).any()):
                self.measurement.findings.fail(
                    CheckName.FRESH_EVERY_CALL,
                    f"output {p.name!r} of a call was written before the call's inputs existed",
                )

    # -- after the calls -------------------------------------------------------------------------------------------

    def check_all(self, slots: list[int]) -> bool:
        """For every call, at the price of one wait: inputs as they were, guards as they were, outputs written."""
        findings = self.measurement.findings
        changed = torch.stack([self._differs(p, slot) for p in self.inputs for slot in slots]) if self.inputs else None
        broken = [self._guards(p, slot) for p in self.outputs for slot in slots]
        left = [self._left(p, slot) for p in self.outputs for slot in slots if detects_poison(p.dtype)]
        if changed is not None and bool(changed.any()):
            p = self.inputs[int(changed.to(torch.uint8).argmax()) // len(slots)]
            findings.fail(CheckName.INPUTS_INTACT, f"input {p.name!r} changed during the calls")
        else:
            findings.record(CheckName.INPUTS_INTACT, True)
        if broken and bool((bad := torch.stack(broken)).any()):
            p = self.outputs[int(bad.to(torch.uint8).argmax()) // len(slots)]
            findings.fail(CheckName.GUARDS_INTACT, f"bytes around output {p.name!r} were overwritten")
        else:
            findings.record(CheckName.GUARDS_INTACT, True)
        if left and bool((counts := torch.stack(left)).any()):
            judged = [(p, slot) for p in self.outputs for slot in slots if detects_poison(p.dtype)]
            for index in counts.nonzero().flatten().tolist():
                self._report_unwritten(*judged[index])
        else:
            findings.record(CheckName.OUTPUTS_WRITTEN, True)
        return not findings.failed

    def check_proofs(self, proofs: Mapping[int, tuple[int, bytes]]) -> None:
        """The words each end mark carried must be the ones that stand in its outputs now. Keys are slots."""
        outputs = self.buffers.layout.outputs[:PROOF_OUTPUTS]  # empty ones too: the runner counts them
        words = [p.nbytes // 4 for p in outputs]
        carried: dict[int, list[int]] = {index: [] for index in range(len(outputs))}
        where: dict[int, list[int]] = {index: [] for index in range(len(outputs))}
        for slot, (seed, proof) in proofs.items():
            which, word = proof_positions(seed, words)
            values = np.frombuffer(proof, dtype=np.int32)
            for index, p in enumerate(outputs):
                if words[index]:
                    chosen = which == index
                    where[index] += ((slot * p.stride + p.offset) // 4 + word[chosen]).tolist()
                    carried[index] += values[chosen].tolist()
        for index, p in enumerate(outputs):
            if not where[index]:
                continue
            now = self.buffers.raw(p).view(torch.int32)[torch.tensor(where[index], device="cuda")].cpu().numpy()
            if not np.array_equal(now, np.array(carried[index], dtype=np.int32)):
                self.measurement.findings.fail(
                    CheckName.COMPLETE_ON_TIME, f"output {p.name!r} was not finished when a call's end mark appeared"
                )
                return
        self.measurement.findings.record(CheckName.COMPLETE_ON_TIME, True)

    def check_looks(self) -> None:
        """What was fetched right after a call's end mark must be what stands there now."""
        for slot, looks in self._looks.items():
            for p, begin, host in looks:
                now = self.buffers.data(p, slot)[begin : begin + len(host)].cpu()
                if not torch.equal(now, host):
                    self.measurement.findings.fail(
                        CheckName.COMPLETE_ON_TIME, f"output {p.name!r} changed after the call's end mark"
                    )

    def check_call(self, slot: int, what: str) -> bool:
        """One call's outputs against the reference for its inputs."""
        return self.verifier.check(self.measurement, self.kept(slot), self.results(slot), what)

    def check_echo(self, slot: int, base: Mapping[str, Value]) -> bool:
        """One near-duplicate call's outputs, where they must differ from the answer to ``base``."""
        return self.verifier.check_altered(self.measurement, base, self.kept(slot), self.results(slot))

    def kept(self, slot: int) -> dict[str, Value]:
        """A slot's inputs from the private copy, scalars included, in no particular order."""
        made: dict[str, Value] = {**self.verifier.scalars(), **self._empty}
        for p in self.inputs:
            made[p.name] = self._private[p.name][slot].view(p.dtype).reshape(p.shape)
        return made

    def results(self, slot: int) -> dict[str, torch.Tensor]:
        return {p.name: self.buffers.view(p, slot) for p in self.buffers.layout.outputs}

    def _differs(self, p: Parameter, slot: int) -> torch.Tensor:
        shared, private = self.buffers.data(p, slot), self._private[p.name][slot]
        if p.nbytes % 8 == 0:
            shared, private = shared.view(torch.int64), private.view(torch.int64)
        return (shared != private).any()

    def _guards(self, p: Parameter, slot: int) -> torch.Tensor:
        raw = self.buffers.raw(p)[slot * p.stride : (slot + 1) * p.stride]
        guard = self._patterns[p.name][1]
        return (raw[:GUARD_BYTES] != guard).any() | (raw[GUARD_BYTES + p.nbytes :] != guard).any()

    def _left(self, p: Parameter, slot: int) -> torch.Tensor:
        return (as_bits(self.buffers.view(p, slot)) == self._patterns[p.name][0]).any()

    def _report_unwritten(self, p: Parameter, slot: int) -> None:
        """An integer result may be the poison's value by chance: only where the reference is not."""
        reference = self.verifier.factory.reference(self.kept(slot), self.verifier.workload)[p.name]
        output = self.buffers.view(p, slot)
        if left := leftover(output, self._patterns[p.name][0], reference):
            self.measurement.findings.fail(
                CheckName.OUTPUTS_WRITTEN, f"{left} of {output.numel()} elements of output {p.name!r} never written"
            )
