"""The page of flags a GPU batch runs by, from the judge's side: gates to open, marks to watch, proofs to keep."""

from __future__ import annotations

import mmap
import os
import struct
import time

import numpy as np
import numpy.typing as npt

from agentcore.judge.runner import pages

WordArray = npt.NDArray[np.uint32]


class DevicePage:
    """Pinned by the runner and mapped into its GPU context; the judge only reads and writes host memory."""

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("device-page", os.MFD_CLOEXEC)
        os.ftruncate(self.descriptor, pages.DEVICE_PAGE_BYTES)
        self._mapping = mmap.mmap(self.descriptor, pages.DEVICE_PAGE_BYTES)
        self._words = memoryview(self._mapping).cast("Q")
        self._marks = pages.MARK_OFFSET // 8

    def reset(self) -> None:
        """Close every gate and forget every mark and proof."""
        self._mapping[:] = bytes(pages.DEVICE_PAGE_BYTES)

    def open_gates(self, through: int) -> int:
        """Let the first ``through`` calls run; the time just before, in ns."""
        opened = time.perf_counter_ns()
        self._words[0] = through
        return opened

    def open_all(self) -> None:
        self._words[0] = pages.GATE_OPEN

    def set_seed(self, call: int, seed: int) -> None:
        """Where call's proof will look; written only after the call was enqueued."""
        struct.pack_into("<Q", self._mapping, pages.SEED_OFFSET + 8 * call, seed)

    def watch(
        self, calls: range, token: int, timeout_s: float
    ) -> tuple[list[int], list[int], list[bytes]] | None:
        """Spin until every call's begin and end marks show ``token``: their times (ns) and each proof as it was then.

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
        return begins, ends, proofs

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
