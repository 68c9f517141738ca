"""Messages between judge and runner: one JSON object per SEQPACKET datagram, file descriptors alongside.

Used by both sides. Not a security boundary by itself: the judge treats whatever arrives as a claim, and a malformed
or untimely message as a finding (check ``channel-intact``).
"""

from __future__ import annotations

import array
import json
import socket
from typing import Any

MAX_MESSAGE_BYTES = 96 * 1024
MAX_DESCRIPTORS = 64


class ChannelClosed(Exception):
    """The other side went away."""


class ChannelViolation(Exception):
    """The other side sent something that is not a message of the protocol."""


def pair() -> tuple[socket.socket, socket.socket]:
    """A connected pair of sockets that keep message borders and carry descriptors."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * MAX_MESSAGE_BYTES)
    return ours, theirs


def send(sock: socket.socket, message: dict[str, Any], descriptors: list[int] | None = None) -> None:
    """Send one message. Raises ValueError if it is too large, ChannelClosed if nobody listens."""
    data = json.dumps(message, separators=(",", ":")).encode()
    if len(data) > MAX_MESSAGE_BYTES:
        raise ValueError(f"message {message.get('op')!r} of {len(data)} bytes exceeds {MAX_MESSAGE_BYTES}")
    try:
        if descriptors:
            socket.send_fds(sock, [data], descriptors)
        else:
            sock.send(data)
    except (BrokenPipeError, ConnectionResetError) as error:
        raise ChannelClosed(str(error)) from error


def receive(sock: socket.socket, *, with_descriptors: bool = False) -> tuple[dict[str, Any], list[int]]:
    """Receive one message; honours the socket's timeout (TimeoutError).

    Descriptors are only accepted when asked for, so a hostile peer cannot plant any.
    """
    descriptors: array.array[int] = array.array("i")
    try:
        if with_descriptors:
            size = socket.CMSG_LEN(MAX_DESCRIPTORS * descriptors.itemsize)
            data, ancillary, flags, _ = sock.recvmsg(MAX_MESSAGE_BYTES + 1, size)
            for level, kind, payload in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    descriptors.frombytes(payload[: len(payload) - len(payload) % descriptors.itemsize])
        else:
            data, _, flags, _ = sock.recvmsg(MAX_MESSAGE_BYTES + 1)
    except ConnectionResetError as error:
        raise ChannelClosed(str(error)) from error
    if not data:
        raise ChannelClosed("end of stream")
    if len(data) > MAX_MESSAGE_BYTES or flags & socket.MSG_TRUNC:
        raise ChannelViolation(f"a message longer than {MAX_MESSAGE_BYTES} bytes")
    try:
        message = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ChannelViolation(f"not JSON: {data[:80]!r}") from error
    if not isinstance(message, dict) or not isinstance(message.get("op"), str):
        raise ChannelViolation(f"not a message: {data[:80]!r}")
    return message, list(descriptors)
