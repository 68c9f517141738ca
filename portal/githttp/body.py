"""A git client's request body as a stream of chunks, on every WSGI server we run under. Not for git's meaning of it.

Django's ``request.body`` is empty for a chunked request, which is how git sends every pack over 1 MiB, so the WSGI
input is read directly.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

from agentcore.gitstore.transport import CHUNK_BYTES, ClientGone

_LINE_BYTES = 1024


class BadBody(ValueError):
    """The request's body cannot be read. ``status`` is the HTTP status that says so."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


def read_body(environ: dict[str, Any], limit: int) -> Iterator[bytes]:
    """The body of a request, decompressed, in chunks of at most 64 KiB.

    Raises BadBody at once where its framing or encoding is not understood; while iterating, ClientGone where the
    request ends early or passes ``limit`` bytes.
    """
    encoding = environ.get("HTTP_CONTENT_ENCODING", "").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip"):
        raise BadBody(f"Content-Encoding {encoding[:40]!r} is not supported; use gzip or none", 415)
    raw = _framed(environ)
    return _bounded(_inflated(raw) if encoding.endswith("gzip") else raw, limit)


def _framed(environ: dict[str, Any]) -> Iterator[bytes]:
    source = environ["wsgi.input"]
    coding = environ.get("HTTP_TRANSFER_ENCODING", "").strip().lower()
    length = environ.get("CONTENT_LENGTH", "")
    if coding and coding != "chunked":
        raise BadBody(f"Transfer-Encoding {coding[:40]!r} is not supported", 501)
    if coding:
        if environ.get("wsgi.input_terminated"):
            return _until_end(source.read)
        return _chunked(_unlimited(source))
    if not length:
        return iter(())
    if not length.isdigit():
        raise BadBody("Content-Length is no number")
    return _counted(source.read, int(length))


def _unlimited(source: Any) -> Any:
    """The connection beneath Django's own server, which limits a chunked body to 0 bytes and does not decode it."""
    while hasattr(source, "limit") and hasattr(source, "_read"):
        source = source._read.__self__
    if not hasattr(source, "readline"):
        raise BadBody("this server does not pass chunked requests on; set http.postBuffer in your clone", 411)
    return source


def _until_end(read: Callable[[int], bytes]) -> Iterator[bytes]:
    while data := _read(read, CHUNK_BYTES):
        yield data


def _counted(read: Callable[[int], bytes], length: int) -> Iterator[bytes]:
    while length:
        data = _read(read, min(length, CHUNK_BYTES))
        if not data:
            raise ClientGone(f"the request ended {length} bytes early")
        length -= len(data)
        yield data


def _chunked(source: Any) -> Iterator[bytes]:
    while True:
        size_text = _line(source).partition(b";")[0].strip()
        try:
            size = int(size_text, 16)
        except ValueError:
            raise ClientGone(f"{size_text[:40]!r} is no chunk size") from None
        if size < 0:
            raise ClientGone("a chunk size is negative")
        if size == 0:
            while _line(source).strip():
                pass  # trailers
            return
        yield from _counted(source.read, size)
        if _line(source).strip():
            raise ClientGone("a chunk is longer than it says")


def _line(source: Any) -> bytes:
    line: bytes = _read(source.readline, _LINE_BYTES)
    if not line.endswith(b"\n"):
        raise ClientGone("the request ended inside a chunk header")
    return line


def _read(read: Callable[[int], bytes], size: int) -> bytes:
    try:
        return read(size)
    except (OSError, ValueError) as error:  # servers report a cut connection as either
        raise ClientGone(str(error)) from error


def _inflated(chunks: Iterator[bytes]) -> Iterator[bytes]:
    decoder = zlib.decompressobj(wbits=31)
    try:
        for chunk in chunks:
            data = chunk
            while data:
                if out := decoder.decompress(data, CHUNK_BYTES):
                    yield out
                data = decoder.unconsumed_tail
        if not decoder.eof:
            raise ClientGone("the gzip stream ended early")
    except zlib.error as error:
        raise ClientGone(f"the gzip stream is damaged: {error}") from error


def _bounded(chunks: Iterator[bytes], limit: int) -> Iterator[bytes]:
    total = 0
    for chunk in chunks:
        total += len(chunk)
        if total > limit:
            raise ClientGone(f"the request is longer than {limit} bytes")
        yield chunk
