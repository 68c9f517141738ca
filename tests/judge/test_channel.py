"""Messages keep their borders, and nothing a hostile peer sends is more than a refused message."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentcore.judge.runner import channel
from tests.judge.conftest import open_descriptors

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def ends() -> Iterator[Pair]:
    ours, theirs = channel.pair()
    ours.settimeout(2)
    theirs.settimeout(2)
    with ours, theirs:
        yield ours, theirs


def test_messages_arrive_one_by_one_however_many_wait(ends: Pair) -> None:
    ours, theirs = ends
    for number in range(5):
        channel.send(theirs, {"op": "n", "value": number})
    assert [channel.receive(ours)[0]["value"] for _ in range(5)] == list(range(5))


def test_the_largest_message_passes_whole(ends: Pair) -> None:
    ours, theirs = ends
    filler = "x" * (channel.MAX_MESSAGE_BYTES - len('{"op":"big","f":""}'))
    channel.send(theirs, {"op": "big", "f": filler})
    assert channel.receive(ours)[0]["f"] == filler


def test_a_message_over_the_limit_is_refused_before_it_is_sent(ends: Pair) -> None:
    with pytest.raises(ValueError, match=r"'big' of \d+ bytes exceeds"):
        channel.send(ends[1], {"op": "big", "f": "x" * channel.MAX_MESSAGE_BYTES})


def test_an_oversize_datagram_from_a_peer_that_ignores_the_limit_is_a_violation(ends: Pair) -> None:
    ours, theirs = ends
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    theirs.send(b'{"op":"' + b"x" * (2 * channel.MAX_MESSAGE_BYTES) + b'"}')
    with pytest.raises(channel.ChannelViolation, match="longer than"):
        channel.receive(ours)
    channel.send(theirs, {"op": "next"})
    assert channel.receive(ours)[0] == {"op": "next"}  # the rest of the oversize one is gone, not read as a message


@pytest.mark.parametrize(
    "junk",
    [b"\x00", b"\xff\xfe", b"{", b"[1]", b"7", b'"op"', b"{}", b'{"op": 1}', b'{"op": null}', b"[" * 50_000,
     b'{"op":"x","n":' + b"9" * 50_000 + b"}"],
    ids=lambda junk: repr(junk[:14]),
)
def test_junk_is_a_violation(ends: Pair, junk: bytes) -> None:
    ends[1].send(junk)
    with pytest.raises(channel.ChannelViolation):
        channel.receive(ends[0])


def test_a_violation_shows_only_a_little_of_what_came(ends: Pair) -> None:
    ends[1].send(b"A" * 50_000)
    with pytest.raises(channel.ChannelViolation) as caught:
        channel.receive(ends[0])
    assert len(str(caught.value)) < 200


def test_a_descriptor_planted_on_the_judge_is_never_received(ends: Pair) -> None:
    ours, theirs = ends
    before = open_descriptors()
    with Path("/dev/null").open("rb") as null:
        socket.send_fds(theirs, [json.dumps({"op": "x"}).encode()], [null.fileno()])
    message, descriptors = channel.receive(ours)
    assert (message, descriptors) == ({"op": "x"}, [])
    assert open_descriptors() == before


def test_descriptors_arrive_in_order_where_they_are_asked_for(ends: Pair) -> None:
    ours, theirs = ends
    made = [os.memfd_create(name) for name in ("first", "second")]
    channel.send(ours, {"op": "buffers"}, made)
    _, received = channel.receive(theirs, with_descriptors=True)
    try:
        assert [os.fstat(fd).st_ino for fd in received] == [os.fstat(fd).st_ino for fd in made]
    finally:
        for fd in (*made, *received):
            os.close(fd)


def test_a_closed_peer_is_told_apart_from_a_message(ends: Pair) -> None:
    ours, theirs = ends
    theirs.close()
    with pytest.raises(channel.ChannelClosed):
        channel.receive(ours)
    with pytest.raises(channel.ChannelClosed):
        channel.send(ours, {"op": "x"})


def test_silence_is_a_timeout(ends: Pair) -> None:
    ends[0].settimeout(0.02)
    with pytest.raises(TimeoutError):
        channel.receive(ends[0])
