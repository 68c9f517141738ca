"""Which memory a runner gets that another one had."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from agentcore.judge.kept_memory import KeptMemory


@dataclass(eq=False)
class Piece:
    size: int
    descriptor: int = -1
    closed: list[int] = field(default_factory=list)

    def close(self) -> None:
        self.closed.append(self.size)


def kept(limit_bytes: int = 100) -> KeptMemory[Piece]:
    return KeptMemory(Piece, limit_bytes)


def test_pieces_of_one_size_come_again_in_the_order_they_were_given_in() -> None:
    memory = kept()
    first, second, other = Piece(10), Piece(10), Piece(20)
    memory.keep([(9, first), (20, other), (9, second)])
    assert [memory.take(9), memory.take(20), memory.take(9)] == [first, other, second]
    assert memory.take(9) not in (first, second)


def test_another_size_is_another_piece() -> None:
    memory = kept()
    memory.keep([(9, Piece(10))])
    assert memory.take(8).size == 8


def test_no_more_is_kept_than_the_limit_and_what_was_kept_first_goes() -> None:
    memory = kept(25)
    first, second, third = Piece(10), Piece(10), Piece(10)
    memory.keep([(10, first), (10, second)])
    memory.keep([(10, third)])
    assert first.closed == [10] and not second.closed and not third.closed
    assert [memory.take(10), memory.take(10)] == [second, third]


def test_where_the_device_has_no_more_everything_kept_is_freed_first() -> None:
    old = Piece(10)

    def allocate(nbytes: int) -> Piece:
        if not old.closed:
            raise RuntimeError("out of memory")
        return Piece(nbytes)

    memory = KeptMemory(allocate, 100)
    memory.keep([(10, old)])
    assert memory.take(50).size == 50 and old.closed == [10]


def test_a_device_without_memory_for_one_says_so() -> None:
    def allocate(_nbytes: int) -> Piece:
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        KeptMemory(allocate, 100).take(50)
