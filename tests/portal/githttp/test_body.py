"""Request bodies as the servers hand them over: framed, chunked, compressed, cut short and hostile."""

from __future__ import annotations

import gzip
import io

import pytest
from django.core.handlers.wsgi import LimitedStream

from agentcore.gitstore.transport import CHUNK_BYTES, ClientGone
from portal.githttp.body import BadBody, read_body

LIMIT = 1 << 20


def environ(data: bytes, **extra: object) -> dict[str, object]:
    return {"wsgi.input": io.BytesIO(data), "CONTENT_LENGTH": str(len(data)), **extra}


def chunked(data: bytes, **extra: object) -> dict[str, object]:
    """What Django's own server passes: a stream limited to 0 bytes around the connection."""
    return {"wsgi.input": LimitedStream(io.BytesIO(data), 0), "HTTP_TRANSFER_ENCODING": "chunked", **extra}


def test_a_counted_body_is_read_to_its_length_and_no_further():
    source = io.BytesIO(b"x" * 200_000 + b"next request")
    chunks = list(read_body({"wsgi.input": source, "CONTENT_LENGTH": "200000"}, LIMIT))
    assert b"".join(chunks) == b"x" * 200_000
    assert max(map(len, chunks)) <= CHUNK_BYTES
    assert source.read() == b"next request"


def test_a_counted_body_that_ends_early_says_so():
    with pytest.raises(ClientGone, match="5 bytes early"):
        list(read_body({"wsgi.input": io.BytesIO(b"hello"), "CONTENT_LENGTH": "10"}, LIMIT))


def test_a_chunked_body_is_decoded_up_to_its_end():
    source = io.BytesIO(b"5;name=x\r\nhello\r\n1\r\n!\r\n0\r\nTrailer: y\r\n\r\nnext request")
    given = {"wsgi.input": LimitedStream(source, 0), "HTTP_TRANSFER_ENCODING": "chunked"}
    assert b"".join(read_body(given, LIMIT)) == b"hello!"
    assert source.read() == b"next request"


@pytest.mark.parametrize(
    "data", [b"", b"5\r\nhel", b"5\r\nhello\r\n", b"zz\r\nhello\r\n", b"-5\r\nhello\r\n", b"2\r\nhello\r\n0\r\n\r\n"]
)
def test_a_damaged_chunked_body_counts_as_a_client_that_left(data):
    with pytest.raises(ClientGone):
        list(read_body(chunked(data), LIMIT))


def test_a_compressed_body_is_inflated():
    data = b"0123456789" * 50_000
    assert b"".join(read_body(environ(gzip.compress(data), HTTP_CONTENT_ENCODING="gzip"), LIMIT)) == data


def test_a_compressed_body_that_grows_past_the_limit_is_cut_off_without_being_held():
    body = read_body(environ(gzip.compress(b"0" * (64 << 20)), HTTP_CONTENT_ENCODING="gzip"), LIMIT)
    taken: list[int] = []
    with pytest.raises(ClientGone, match="longer than"):
        taken.extend(map(len, body))
    assert max(taken) <= CHUNK_BYTES
    assert sum(taken) <= LIMIT


@pytest.mark.parametrize("data", [b"not gzip at all", gzip.compress(b"x" * 1000)[:-9]], ids=["no gzip", "cut short"])
def test_a_damaged_compressed_body_counts_as_a_client_that_left(data):
    with pytest.raises(ClientGone):
        list(read_body(environ(data, HTTP_CONTENT_ENCODING="gzip"), LIMIT))


@pytest.mark.parametrize(
    ("extra", "status"),
    [
        ({"HTTP_CONTENT_ENCODING": "br"}, 415),
        ({"HTTP_TRANSFER_ENCODING": "gzip, chunked"}, 501),
        ({"CONTENT_LENGTH": "many"}, 400),
    ],
)
def test_what_is_not_understood_is_refused_before_anything_is_read(extra, status):
    with pytest.raises(BadBody) as caught:
        read_body(environ(b"x", **extra), LIMIT)
    assert caught.value.status == status
