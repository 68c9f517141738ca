"""Which memory a runner gets that another one had."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from cuda.bindings import driver as cu

from agentcore.judge import cuda_buffers
from agentcore.judge.cuda_buffers import CudaError, SharedAllocation
from agentcore.judge.kept_memory import MOST_PIECES, KeptMemory

X, Y, Z = ("workload", "x"), ("workload", "y"), ("workload", "z")


@dataclass(eq=False)
class Piece:
    size: int
    descriptor: int = -1
    closed: list[int] = field(default_factory=list)

    def close(self) -> None:
        self.closed.append(self.size)


def kept(limit_bytes: int = 100) -> KeptMemory[Piece]:
    return KeptMemory(Piece, limit_bytes)


def test_a_buffer_has_the_memory_it_had_and_no_others_of_its_size() -> None:
    memory = kept()
    x, y = Piece(10), Piece(10)
    memory.keep({X: x, Y: y})
    assert memory.take(Z, 10) not in (x, y)
    assert memory.take(Y, 9) is y and memory.take(X, 10) is x
    assert memory.take(X, 10) is not x  # somebody has it


def test_what_has_become_too_small_is_freed() -> None:
    memory, small = kept(), Piece(10)
    memory.keep({X: small})
    assert memory.take(X, 11).size == 11 and small.closed == [10]


def test_two_of_a_name_are_not_both_kept() -> None:
    memory, first, second = kept(), Piece(10), Piece(10)
    memory.keep({X: first})
    memory.keep({X: second})
    assert first.closed == [10] and memory.take(X, 10) is second


def test_no_more_is_kept_than_the_limit_and_what_was_kept_first_goes() -> None:
    memory = kept(25)
    x, y, z = Piece(10), Piece(10), Piece(10)
    memory.keep({X: x, Y: y})
    memory.keep({Z: z})
    assert x.closed == [10] and not y.closed and not z.closed
    assert (memory.take(Y, 10), memory.take(Z, 10)) == (y, z)


def test_no_more_descriptors_are_held_than_a_process_may_have() -> None:
    memory, pieces = kept(10 * MOST_PIECES), [Piece(1) for _ in range(MOST_PIECES + 3)]
    for number, piece in enumerate(pieces):
        memory.keep({("workload", str(number)): piece})
    assert [len(piece.closed) for piece in pieces] == [1, 1, 1] + [0] * MOST_PIECES


class FailingDriver:
    """Of which one call fails; the others are written down."""

    def __init__(self, fails: str) -> None:
        self.fails, self.called = fails, list[str]()

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cuMem"):
            return getattr(cu, name)

        def call(*_given: object) -> tuple[object, ...]:
            self.called.append(name)
            failed = cu.CUresult.CUDA_ERROR_OPERATING_SYSTEM
            return (failed if name == self.fails else cu.CUresult.CUDA_SUCCESS, 1 << 21)

        return call


@pytest.mark.parametrize(
    ("fails", "undone"), [
        ("cuMemCreate", []), ("cuMemAddressReserve", ["cuMemRelease"]),
        ("cuMemMap", ["cuMemAddressFree", "cuMemRelease"]),
        ("cuMemExportToShareableHandle", ["cuMemUnmap", "cuMemAddressFree", "cuMemRelease"]),
    ],
)
def test_memory_that_cannot_be_shared_is_given_back(
    monkeypatch: pytest.MonkeyPatch, fails: str, undone: list[str]
) -> None:
    """As where the judge has no descriptor left: what is kept is freed, and it is tried again."""
    driver = FailingDriver(fails)
    monkeypatch.setattr(cuda_buffers, "cu", driver)
    with pytest.raises(CudaError):
        SharedAllocation(100)
    assert driver.called[driver.called.index(fails) + 1 :] == undone


def test_where_the_device_has_no_more_everything_kept_is_freed_first() -> None:
    old = Piece(10)

    def allocate(nbytes: int) -> Piece:
        if not old.closed:
            raise RuntimeError("out of memory")
        return Piece(nbytes)

    memory = KeptMemory(allocate, 100)
    memory.keep({X: old})
    assert memory.take(Y, 50).size == 50 and old.closed == [10]


def test_a_device_without_memory_for_one_says_so() -> None:
    def allocate(_nbytes: int) -> Piece:
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        KeptMemory(allocate, 100).take(X, 50)
