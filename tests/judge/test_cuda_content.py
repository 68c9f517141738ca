"""What the judge draws, publishes and finds out about a GPU batch's slots, here in host memory: no GPU is needed."""

from __future__ import annotations

import itertools
import secrets
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from agentcore.judge import cuda_content
from agentcore.judge.cuda_content import EARLY_LOOKS, ROW_BYTES, BatchContent, held_bytes
from agentcore.judge.cuda_copies import Copier
from agentcore.judge.device_page import proof_positions
from agentcore.judge.findings import Findings
from agentcore.judge.host_buffers import HostBuffers
from agentcore.judge.layout import GUARD_BYTES, Layout, as_bits
from agentcore.judge.measurement import Measurement, Verifier
from agentcore.problems import load_problem
from agentcore.problems.tensors import InputFactory
from agentcore.vocabulary import CheckName, Verdict
from tests.judge.conftest import workload, write_problem

DEFINITION = {
    "name": "shift_it",
    "axes": {"n": {"type": "var"}},
    "inputs": {"x": {"shape": ["n"], "dtype": "float32"}, "b": {"shape": [3], "dtype": "uint8"}},
    "outputs": {"y": {"shape": ["n"], "dtype": "float32"}, "k": {"shape": ["n"], "dtype": "int32"}},
    "reference": "import torch\ndef run(x, b):\n    return x * 2 + b[0], (x > 0).to(torch.int32) * 7\n",
}
SLOTS = 8


@pytest.fixture
def content(tmp_path: Path) -> Iterator[BatchContent]:
    problem = load_problem(write_problem(tmp_path / "problem", DEFINITION, [workload(axes={"n": 1001})]))
    verifier = Verifier(problem, InputFactory(problem, "cpu"), problem.workloads[0])
    layout = Layout.of(problem, problem.workloads[0], verifier.scalars(), SLOTS)
    buffers = HostBuffers(layout)
    yield BatchContent(buffers, verifier, Measurement())
    buffers.close()


def run(content: BatchContent, slots: list[int], skip: int | None = None) -> None:
    """What an honest runner does with published slots."""
    for slot in slots:
        if slot != skip:
            answer = content.verifier.factory.reference(content.kept(slot))
            for name, tensor in content.results(slot).items():
                tensor.copy_(answer[name])


def batch(content: BatchContent, slots: list[int] | None = None, skip: int | None = None) -> list[int]:
    slots = list(range(SLOTS)) if slots is None else slots
    content.draw(slots)
    content.poison(slots)
    content.publish(slots)
    run(content, slots, skip)
    return slots


def failed(content: BatchContent) -> set[CheckName]:
    return {check.name for check in content.measurement.findings.checks() if check.status == "fail"}


@pytest.mark.parametrize("slots", [None, [0], [1], [3, 1, 2], [7, 6]])
def test_an_honest_batch_passes_every_check(content: BatchContent, slots: list[int] | None) -> None:
    done = batch(content, slots)
    assert content.check_all(done) and content.check_calls(done, [str(s) for s in done])
    content.check_untouched()
    assert content.measurement.findings.verdict() is Verdict.PASSED
    assert content.measurement.verified_calls == len(done)


def test_every_slot_has_content_of_its_own_and_the_same_content_is_the_same(content: BatchContent) -> None:
    content.draw(range(SLOTS))
    content.publish(range(SLOTS))
    x = content.inputs[0]
    assert len({content.buffers.data(x, s).numpy().tobytes() for s in range(SLOTS)}) == SLOTS
    base = content.draw_same(range(SLOTS))
    content.alter([2], base)
    content.publish(range(SLOTS))
    assert len({content.buffers.data(x, s).numpy().tobytes() for s in range(SLOTS)}) == 2


@pytest.mark.parametrize("slot", [0, 3, SLOTS - 1])
@pytest.mark.parametrize("byte", [0, -1])
@pytest.mark.parametrize("which", [0, 1])
def test_one_changed_byte_of_an_input_is_found(content: BatchContent, slot: int, byte: int, which: int) -> None:
    done = batch(content)
    content.buffers.data(content.inputs[which], slot)[byte] ^= 1
    assert not content.check_all(done) and failed(content) == {CheckName.INPUTS_INTACT}
    assert repr(content.inputs[which].name) in content.measurement.findings.message()


@pytest.mark.parametrize("slot", [0, SLOTS - 1])
@pytest.mark.parametrize("where", ["first byte before", "last byte before", "first byte after", "last byte after"])
def test_one_overwritten_guard_byte_is_found(content: BatchContent, slot: int, where: str) -> None:
    done = batch(content)
    y = content.outputs[0]
    row = content.buffers.rows(y, range(SLOTS))[slot]
    index = {
        "first byte before": 0, "last byte before": GUARD_BYTES - 1, "first byte after": GUARD_BYTES + y.nbytes,
        "last byte after": y.stride - 1,
    }[where]
    row[index] ^= 1
    assert not content.check_all(done) and failed(content) == {CheckName.GUARDS_INTACT}


@pytest.mark.parametrize("slot", [0, 4, SLOTS - 1])
def test_a_call_that_never_ran_is_found(content: BatchContent, slot: int) -> None:
    assert not content.check_all(batch(content, skip=slot)) and failed(content) == {CheckName.OUTPUTS_WRITTEN}
    assert "1001 of 1001 elements" in content.measurement.findings.message()


def test_an_integer_result_that_happens_to_be_the_poison_is_not_held_against_it(content: BatchContent) -> None:
    done = batch(content)
    content._patterns["k"] = (7, content._patterns["k"][1])
    assert content.check_all(done)


def test_a_wrong_output_is_named_by_its_call(content: BatchContent) -> None:
    done = batch(content)
    content.results(5)["y"][17] += 9
    content.results(6)["y"][17] += 9
    tolerance = content.verifier.tolerance.model_copy(update={"required_matched_ratio": 1.0})
    content.verifier.tolerance = tolerance
    assert not content.check_calls(done, [f"call {s}" for s in done])
    assert content.measurement.findings.message().startswith("call 5: output 'y'")
    assert content.measurement.verified_calls == 6


def test_the_answer_to_an_earlier_call_is_called_a_replay(content: BatchContent) -> None:
    done = batch(content)
    for name, tensor in content.results(4).items():
        tensor.copy_(content.results(2)[name])
    assert not content.check_calls(done, [f"call {s}" for s in done])
    assert failed(content) == {CheckName.FRESH_EVERY_CALL, CheckName.MATCHES_REFERENCE}


def test_writing_before_the_inputs_exist_is_found(content: BatchContent) -> None:
    slots = list(range(SLOTS))
    content.poison(slots)
    content.look_untouched(3)
    content.check_untouched()
    assert not failed(content)
    content.results(3)["k"][1000] = 0
    content.check_untouched()
    assert not failed(content)  # what counts is how it was when it was looked at
    content.look_untouched(3)
    content.check_untouched()
    assert failed(content) == {CheckName.FRESH_EVERY_CALL}


def test_a_look_that_differs_from_what_stands_there_later_is_late_work(content: BatchContent) -> None:
    batch(content)
    content.look(2)
    content.check_looks()
    assert not failed(content)
    as_bits(content.results(2)["y"])[500] ^= 1
    content.check_looks()
    assert failed(content) == {CheckName.COMPLETE_ON_TIME}


def test_of_outputs_too_large_for_a_look_all_is_kept(
    content: BatchContent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_content, "LOOK_BYTES", 64)
    monkeypatch.setattr(cuda_content, "KEPT_SLOTS", 4)
    content = BatchContent(content.buffers, content.verifier, Measurement())
    for changed in (None, (5, "y", 1000), (4, "k", 0)):
        batch(content)
        content.keep_outputs([2, 5])
        content.keep_outputs([0, 4])
        if changed:
            slot, name, index = changed
            as_bits(content.results(slot)[name])[index] ^= 1
        content.check_looks()
        assert failed(content) == ({CheckName.COMPLETE_ON_TIME} if changed else set())


class Compared(TorchDispatchMode):
    """How many elements of each type are compared meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: Counter[torch.dtype] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.ne.Tensor:
            self.elements[args[0].dtype] += args[0].numel()
        return func(*args, **(kwargs or {}))


def odd_bytes(root: Path, n: int) -> BatchContent:
    """Of a problem whose tensors are ``n`` bytes each."""
    definition = {
        **DEFINITION, "inputs": {"x": {"shape": ["n"], "dtype": "uint8"}},
        "outputs": {"y": {"shape": ["n"], "dtype": "uint8"}}, "reference": "def run(x):\n    return x + 1\n",
    }
    problem = load_problem(write_problem(root / f"odd{n}", definition, [workload(axes={"n": n})]))
    verifier = Verifier(problem, InputFactory(problem, "cpu"), problem.workloads[0])
    return BatchContent(
        HostBuffers(Layout.of(problem, problem.workloads[0], verifier.scalars(), SLOTS)), verifier, Measurement()
    )


@pytest.mark.parametrize("n", [1, 7, 8, 1000, 1003])
def test_bytes_are_compared_in_words_and_the_last_few_are_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n: int
) -> None:
    monkeypatch.setattr(cuda_content, "LOOK_BYTES", 0)
    monkeypatch.setattr(cuda_content, "KEPT_SLOTS", 4)
    content = odd_bytes(tmp_path, n)
    for slot, index in ((None, 0), (0, 0), (5, n - 1), (5, n // 2)):
        done = batch(content)
        content.keep_outputs([2, 5])
        content.keep_outputs([0, 4])
        if slot is not None:
            content.buffers.data(content.outputs[0], slot)[index] ^= 1
        with Compared() as compared:
            content.check_looks()
            content.check_all(done)
        assert failed(content) == (set() if slot is None else {CheckName.COMPLETE_ON_TIME})
        rows = 4 + SLOTS
        assert (compared.elements[torch.int64], compared.elements[torch.uint8]) == (n // 8 * rows, n % 8 * rows)
        content.measurement.findings = Findings()
        for name in ("x", "y"):
            rows_of = content._private[name] if name == "x" else content._copies[name]
            assert {row.data_ptr() % ROW_BYTES for row in rows_of} == {rows_of.data_ptr() % ROW_BYTES}
    content.buffers.close()


def test_a_piece_that_begins_between_two_words_is_compared_too(
    content: BatchContent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_content, "LOOK_BYTES", 64)
    monkeypatch.setattr(content.verifier, "draw_seed", lambda: 4)
    batch(content)
    content.look(2)
    content.check_looks()
    assert not failed(content)
    as_bits(content.results(2)["y"])[16] ^= 1  # the last one seen
    content.check_looks()
    assert failed(content) == {CheckName.COMPLETE_ON_TIME}


def test_once_outputs_are_settled_no_check_sees_what_the_runner_makes_of_them(content: BatchContent) -> None:
    """Wrong ones stay wrong and right ones right; so do proofs, looks, guards and poison, until the next batch."""
    done, names = batch(content), [str(s) for s in range(SLOTS)]
    shared = content.results(2)
    carried = proofs(content, done)
    for slot in done:
        content.look(slot)
    content.settle()
    right = {name: tensor.clone() for name, tensor in shared.items()}
    for p in content.outputs:
        content.buffers.raw(p).fill_(content._patterns[p.name][1] ^ 1)
        as_bits(content.buffers.view(p, 3)).fill_(content._patterns[p.name][0])
    content.check_proofs(carried)
    content.check_looks()
    assert content.check_all(done) and content.check_calls(done, names)
    content.settle()
    for name, tensor in shared.items():
        tensor.copy_(right[name])
    assert not content.check_calls([2], ["2"]) and CheckName.MATCHES_REFERENCE in failed(content)
    content.poison(done)
    assert content.results(2)["y"].data_ptr() == shared["y"].data_ptr()


@pytest.mark.parametrize("look_bytes", [64, 1 << 20])
def test_what_is_held_for_a_batch_is_known_before_it_is_taken(
    content: BatchContent, monkeypatch: pytest.MonkeyPatch, look_bytes: int
) -> None:
    monkeypatch.setattr(cuda_content, "LOOK_BYTES", look_bytes)
    content = BatchContent(content.buffers, content.verifier, Measurement())
    each, besides = held_bytes(content.buffers.layout)
    inputs, outputs, taken_besides = (
        sum(t.untyped_storage().nbytes() for t in held.values())
        for held in (content._private, content._settled._raw, content._copies)
    )
    assert [inputs + outputs, taken_besides] == [SLOTS * each, besides] and (besides > 0) == (look_bytes == 64)


def test_a_batch_lands_where_memory_was_pinned_before_it(content: BatchContent) -> None:
    """To pin more while a grid holds the GPU might wait for that."""
    copier = SimpleNamespace(fetch=lambda host, source: host.copy_(source), wait=lambda: None)
    content = BatchContent(content.buffers, content.verifier, Measurement(), cast(Copier, copier))
    before = [host.data_ptr() for host in content._landings]
    for _ in range(2):
        content.poison(range(SLOTS))
        for slot in range(2 * EARLY_LOOKS):
            content.look_untouched(slot)
        for slot in range(SLOTS):
            content.look(slot)
        used = [host.data_ptr() for _p, _begin, host in [*content._early, *itertools.chain(*content._looks.values())]]
        assert len(set(used)) == len(used) == len(before)
        assert [host.data_ptr() for host in content._landings] == before


def proofs(content: BatchContent, slots: list[int]) -> dict[int, tuple[int, bytes]]:
    """What ky_end would carry for every slot."""
    made = {}
    words = [p.nbytes // 4 for p in content.outputs]
    flat = [{s: content.results(s)[p.name].view(torch.int32).numpy() for s in slots} for p in content.outputs]
    for slot in slots:
        seed = secrets.randbits(63)
        (which,), (word,) = proof_positions(np.array([seed], dtype=np.uint64), words)
        carried = np.array([flat[w][slot][i] for w, i in zip(which, word, strict=True)], dtype=np.int32)
        made[slot] = (seed, carried.tobytes())
    return made


def test_proofs_agree_with_outputs_that_were_finished_and_one_stale_word_does_not(content: BatchContent) -> None:
    done = batch(content)
    carried = proofs(content, done)
    content.check_proofs(carried)
    content.check_proofs({})
    assert not failed(content)
    seed, proof = carried[5]
    stale = bytearray(proof)
    stale[4 * 63] ^= 1
    content.check_proofs({**carried, 5: (seed, bytes(stale))})
    assert failed(content) == {CheckName.COMPLETE_ON_TIME}


def test_an_answer_from_memory_to_a_near_duplicate_is_found(content: BatchContent) -> None:
    slots = list(range(SLOTS))
    base = content.draw_same(slots)
    content.poison(slots)
    content.alter([1, 2], base)
    content.publish(slots)
    run(content, slots)
    assert content.check_echo([1, 2], base)
    stale = content.verifier.factory.reference(base)
    for name, tensor in content.results(2).items():
        tensor.copy_(stale[name])
    assert not content.check_echo([1, 2], base) and failed(content) == {CheckName.FRESH_EVERY_CALL}


@pytest.mark.parametrize("size", [4, 7, 64, 1000])
def test_a_piece_of_an_output_holds_whole_elements_and_lies_inside(
    content: BatchContent, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_content, "LOOK_BYTES", size // 4 * 4)
    batch(content)
    y = content.outputs[0]
    for _ in range(20):
        begin, host = content._fetch(y, 2, cuda_content.LOOK_BYTES)
        assert begin % 4 == 0 and len(host) == size // 4 * 4 and begin + len(host) <= y.nbytes
        assert torch.equal(host, content.buffers.data(y, 2)[begin : begin + len(host)])
