"""The page of flags a GPU batch runs by, from the judge's side: gates to open, marks to watch, proofs to keep."""

from __future__ import annotations

import mmap
import os
import struct
import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from agentcore.judge.runner import pages

WordArray = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Marks:
    """What appeared of some calls: times (ns) of begin and end marks and of the mark behind the last, and each proof as
    it was at its end mark.
    """

    begins_ns: list[int]
    ends_ns: list[int]
    over_ns: int
    proofs: list[bytes]


class DevicePage:
    """Pinned by the runner and mapped into its GPU context; the judge only reads and writes host memory."""

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("device-page", os.MFD_CLOEXEC)
        os.ftruncate(self.descriptor, pages.DEVICE_PAGE_BYTES)
        self._mapping = mmap.mmap(self.descriptor, pages.DEVICE_PAGE_BYTES)
        self._words = memoryview(self._mapping).cast("Q")
        self._marks, self._held = pages.MARK_OFFSET // 8, pages.HELD_OFFSET // 8
        self._next_key = (pages.KEY_OFFSET // 8 + 1, 0)

    def reset(self) -> None:
        """Close every gate and forget every mark and proof."""
        self._mapping[:] = bytes(pages.DEVICE_PAGE_BYTES)

    def admit(self, through: int) -> None:
        """Let the stream come as far as the grid that holds the GPU before the last pair of ``through`` calls."""
        self._words[pages.DEVICE_ADMITTED] = through

    def arrived(self, call: int, token: int, timeout_s: float) -> int | None:
        """When every block of the grid before ``call``, or behind it, was on its multiprocessor (ns); None if not in
        time.
        """
        return self._appears(self._held_of(call), token, timeout_s)

    def recall(self, call: int, token: int, timeout_s: float) -> int | None:
        """Ask the grid before ``call``, which has arrived, whether it is on the device: once. When it was (ns); None if
        not in time.
        """
        at = self._held_of(call)
        self._words[at] = 0
        self._words[pages.DEVICE_ASKED] = call + 1
        return self._appears(at, token, timeout_s)

    def publish(self, call: int, through: int, keys: tuple[int, int]) -> int:
        """Say that the inputs of the first ``through`` calls are there; the time just before, in ns.

        ``keys`` are those of the sums that the grid before ``call`` is to give; told one by one, as they are needed.
        """
        at = pages.KEY_OFFSET // 8 + 2 * call
        self._words[at] = keys[0]
        self._next_key = (at + 1, keys[1])
        published = time.perf_counter_ns()
        self._words[pages.DEVICE_PUBLISHED] = through
        return published

    def cleared(self, call: int, token: int, timeout_s: float) -> int | None:
        """When the first pass of the grid before ``call``, or behind it, was over (ns); None if not in time."""
        return self._appears(self._held_of(call) + 1, token, timeout_s)

    def has_cleared(self, call: int, token: int) -> bool:
        """Whether the first pass of the grid before ``call`` is over."""
        return self._words[self._held_of(call) + 1] == token

    def sums(self, call: int) -> tuple[int, int]:
        """What both passes of the grid before ``call``, or behind it, read, by its own account."""
        at = self._held_of(call) + 2
        return self._words[at], self._words[at + 1]

    def open_gates(self, through: int) -> int:
        """Let the first ``through`` calls run; the time just before, in ns."""
        at, key = self._next_key
        self._words[at] = key
        opened = time.perf_counter_ns()
        self._words[pages.DEVICE_GATE] = through
        return opened

    def leave(self, call: int, through: int, keys: tuple[int, int]) -> int:
        """Say that the outputs of the first ``through`` calls have been looked at; the time just before, in ns.

        ``keys`` are those of the sums that the grid behind ``call`` is to give.
        """
        at = pages.KEY_OFFSET // 8 + 2 * call
        self._words[at], self._words[at + 1] = keys
        looked = time.perf_counter_ns()
        self._words[pages.DEVICE_LOOKED] = through
        return looked

    def open_all(self) -> None:
        for word in (pages.DEVICE_ADMITTED, pages.DEVICE_PUBLISHED, pages.DEVICE_GATE, pages.DEVICE_LOOKED):
            self._words[word] = pages.GATE_OPEN

    def set_seed(self, call: int, seed: int) -> None:
        """Where call's proof will look; written only after the call was enqueued."""
        struct.pack_into("<Q", self._mapping, pages.SEED_OFFSET + 8 * call, seed)

    def watch(self, calls: range, token: int, timeout_s: float) -> Marks | None:
        """Spin until every call's begin and end marks show ``token``, and the mark behind the last.

        None if they did not all appear in time.
        """
        words, mapping, clock, marks = self._words, self._mapping, time.perf_counter_ns, self._marks
        begins: list[int] = []
        ends: list[int] = []
        proofs: list[bytes] = []
        size = 4 * pages.PROOF_WORDS
        limit = clock() + int(timeout_s * 1e9)
        for call in calls:
            for which, times in ((0, begins), (1, ends)):
                position = marks + 2 * call + which
                while words[position] != token:
                    if clock() > limit:
                        return None
                times.append(clock())
            at = pages.PROOF_OFFSET + size * call
            proofs.append(mapping[at : at + size])
        over = self._appears(pages.OVER_OFFSET // 8 + calls.stop - 1, token, timeout_s)
        return None if over is None else Marks(begins, ends, over, proofs)

    def stamped_ns(self, call: int) -> int:
        """How long a call took from mark to mark by the device's clock, once the device is idle."""
        at = self._marks + pages.STAMP_BYTES // 8 + 2 * call
        return self._words[at + 1] - self._words[at]

    def _appears(self, position: int, token: int, timeout_s: float) -> int | None:
        words, clock = self._words, time.perf_counter_ns
        limit = clock() + int(timeout_s * 1e9)
        while words[position] != token:
            if clock() > limit:
                return None
        return clock()

    def _held_of(self, call: int) -> int:
        """Where the grid before ``call`` says what it has to say."""
        return self._held + pages.HELD_WORDS * call

    def seen_of(self, calls: range, token: int) -> str:
        """How far a pair of calls came, for a log: which words of theirs show ``token``."""
        held = self._held_of(calls.start)
        words = [("grid there", held), ("cache cleared", held + 1)]
        for call in calls:
            words += [(f"begin {call}", self._marks + 2 * call), (f"end {call}", self._marks + 2 * call + 1)]
        behind = self._held_of(calls.stop - 1)
        words += [
            ("behind the pair", pages.OVER_OFFSET // 8 + calls.stop - 1), ("grid behind it there", behind),
            ("cache cleared behind it", behind + 1),
        ]
        seen: list[str] = []
        missing: list[str] = []
        for name, position in words:
            (seen if self._words[position] == token else missing).append(name)
        return f"of calls {calls.start} and {calls.stop - 1} seen: {', '.join(seen) or 'nothing'}; missing: " \
               f"{', '.join(missing) or 'nothing'}"

    def post_call(self, slot: int, sequence: int) -> None:
        """The word to call, for a runner that serves one call at a time."""
        self._words[pages.DEVICE_SLOT] = slot
        self._words[pages.DEVICE_SEQUENCE] = sequence

    def answered(self, sequence: int) -> bool:
        return self._words[self._marks] == sequence

    def close(self) -> None:
        os.close(self.descriptor)


def proof_positions(
    seeds: npt.NDArray[np.uint64], words: list[int]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(output, word) of each word of each seed's proof, as ky_end in gate.cu draws them: (seeds, PROOF_WORDS) each."""
    with np.errstate(over="ignore"):
        value = np.add.outer(seeds.astype(np.uint64), np.arange(pages.PROOF_WORDS, dtype=np.uint64)).astype(np.uint64)
        value = value + np.uint64(0x9E3779B97F4A7C15)
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        draw = value ^ (value >> np.uint64(31))
    which = (draw >> np.uint64(56)) % np.uint64(len(words))
    sizes = np.array([max(1, w) for w in words], dtype=np.uint64)[which.astype(np.int64)]
    word = (draw & np.uint64(0x00FFFFFFFFFFFFFF)) % sizes
    return which.astype(np.int64), word.astype(np.int64)
