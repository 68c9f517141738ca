"""Smart HTTP for the two repositories: who may do what, and the streams between the client and git.

Solutions are read by everyone and pushed by nobody; attempts are read by everyone and pushed by agents with a token.
Not for what a push may contain: the repository's hooks check that in quarantine.
"""

from __future__ import annotations

import base64
import binascii
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from agentcore.gitstore import GitStoreError
from agentcore.gitstore.attempts import MAX_PUSH_BYTES
from agentcore.gitstore.transport import ClientGone, Push, Service, advertise, exchange
from portal.agents.models import Agent
from portal.agents.tokens import authenticate
from portal.githttp.body import BadBody, read_body

logger = logging.getLogger(__name__)

MAX_FETCH_REQUEST_BYTES = 16 << 20
_IDLE_S = 120
# git stops a pack at MAX_PUSH_BYTES; this bound only ends senders that do not listen.
_MAX_PUSH_REQUEST_BYTES = 8 * MAX_PUSH_BYTES
_PROTOCOL = re.compile(r"version=[0-2]\Z")
_NEVER_CACHED = {"Cache-Control": "no-cache, max-age=0, must-revalidate", "Pragma": "no-cache"}


@dataclass(frozen=True, slots=True)
class _Refused(Exception):
    status: int
    text: str
    challenge: bool = False


@require_GET
def front(request: HttpRequest, name: str) -> HttpResponse:
    """For people who open a repository's address in a browser."""
    return _text(f"This is a git repository. Clone it:\n\n    git clone {settings.PUBLIC_URL}/git/{name}.git\n", 200)


@require_GET
def info_refs(request: HttpRequest, name: str) -> HttpResponseBase:
    """The advertisement a fetch or push starts with."""
    try:
        service = Service(request.GET.get("service", ""))
    except ValueError:
        return _text("Only git's smart HTTP protocol is served here. Use git 1.6.6 or later.\n", 403)
    try:
        path = _repository(name)
        push = _push(request, name) if service is Service.PUSH else None
    except _Refused as refused:
        return _refusal(refused)
    stream = advertise(path, service, _protocol(request), push)
    return _stream(stream, f"application/x-{service}-advertisement", name)


@csrf_exempt
@require_POST
def rpc(request: HttpRequest, name: str, service_name: str) -> HttpResponseBase:
    """One fetch or push, streamed both ways."""
    service = Service(service_name)
    is_push = service is Service.PUSH
    try:
        if request.content_type != f"application/x-{service}-request":
            raise _Refused(415, f"The body must be of type application/x-{service}-request.\n")
        path = _repository(name)
        push = _push(request, name) if is_push else None
        body = read_body(request.environ, _MAX_PUSH_REQUEST_BYTES if is_push else MAX_FETCH_REQUEST_BYTES)
    except BadBody as error:
        return _text(f"{error}\n", error.status)
    except _Refused as refused:
        return _refusal(refused)
    if (connection := request.environ.get("gunicorn.socket")) is not None:
        connection.settimeout(_IDLE_S)  # a client that stalls would hold a thread for ever
    stream = exchange(path, service, body, _protocol(request), push)
    return _stream(stream, f"application/x-{service}-result", name)


def _repository(name: str) -> Path:
    path = {"attempts": settings.ATTEMPTS_REPOSITORY, "solutions": settings.SOLUTIONS_REPOSITORY}[name]
    if not (path / "HEAD").is_file():
        raise _Refused(404, f"{name}.git has not been created yet. The operator runs: manage.py quickstart\n")
    return Path(path)


def _push(request: HttpRequest, name: str) -> Push:
    if name != "attempts":
        raise _Refused(
            403,
            f"{name}.git is read-only: solutions are merged after review in the portal.\n"
            "Push attempts to attempts.git instead.\n",
        )
    agent = _agent(request)
    if agent is None:
        said = "This name and token do not go together, or no longer.\n" if "Authorization" in request.headers else ""
        raise _Refused(
            401,
            f"{said}Pushing needs an agent's name and token (user name and password).\n"
            "The operator issues one with: manage.py createagent NAME\n",
            challenge=True,
        )
    return Push(agent.name, settings.PUBLIC_URL, _received)


def _agent(request: HttpRequest) -> Agent | None:
    scheme, _, credentials = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "basic" or len(credentials) > 1000:
        return None
    try:
        name, separator, token = base64.b64decode(credentials.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return authenticate(name, token) if separator and "\0" not in name else None


def _received(refs: list[str]) -> None:
    """Index what landed. The push has already succeeded: a failure here is logged, and the next reconcile mends it."""
    try:
        from portal.attempts.intake import reconcile

        reconcile(refs=refs)
    except Exception:
        logger.exception("indexing after a push failed; a later reconcile picks up %s", ", ".join(refs))


def _protocol(request: HttpRequest) -> str:
    wanted = request.headers.get("Git-Protocol", "")
    return wanted if _PROTOCOL.match(wanted) else ""


def _stream(stream: Iterator[bytes], content_type: str, name: str) -> HttpResponseBase:
    """Start the exchange and answer with the rest of it: what fails before the first byte gets a proper status."""
    try:
        first = next(stream, b"")
    except ClientGone as error:
        logger.info("%s.git: client gone: %s", name, error)
        return _text(f"{error}\n", 400)
    except (GitStoreError, OSError):
        logger.exception("%s.git could not be served", name)
        return _text("The repository could not be served. Try again, or tell the operator.\n", 500)
    response = StreamingHttpResponse(_Started(first, stream, name), content_type=content_type, headers=_NEVER_CACHED)
    response["X-Accel-Buffering"] = "no"
    return response


class _Started:
    """A stream whose first chunk has been read. Closing it ends git."""

    def __init__(self, first: bytes, rest: Iterator[bytes], name: str) -> None:
        self._first, self._rest, self._name = first, rest, name

    def __iter__(self) -> Iterator[bytes]:
        if self._first:
            yield self._first
        try:
            yield from self._rest
        except (ClientGone, TimeoutError) as error:
            # Headers are out: a cut answer is how the client learns of it.
            logger.info("%s.git: exchange ended early: %s", self._name, error)
            raise

    def close(self) -> None:
        close = getattr(self._rest, "close", None)
        if close is not None:
            close()


def _refusal(refused: _Refused) -> HttpResponseBase:
    response = _text(refused.text, refused.status)
    if refused.challenge:
        response["WWW-Authenticate"] = 'Basic realm="Kernelyard agents", charset="UTF-8"'
    return response


def _text(text: str, status: int) -> HttpResponse:
    """Plain text: git shows it to the user as lines that start with "remote:"."""
    return HttpResponse(text, status=status, content_type="text/plain; charset=utf-8", headers=_NEVER_CACHED)
