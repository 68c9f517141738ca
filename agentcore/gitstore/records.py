"""What the git store hands out: identities, commits and their trailers. Not for running git."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from agentcore.vocabulary import NAME_PATTERN

AGENT_MAIL_DOMAIN = "agents.kernelyard"
OID_PATTERN = re.compile(r"[0-9a-f]{40}\Z")
NO_OID = "0" * 40
_FIELDS = 11
COMMIT_FORMAT = "%x00".join(
    (
        "%H",
        "%T",
        "%P",
        "%an",
        "%ae",
        "%cn",
        "%ce",
        "%at",
        "%ct",
        "%B",
        "%(trailers:only=true,unfold=true,separator=%x1e,key_value_separator=%x1f)",
    )
)
KNOWN_TRAILERS = ("Problem", "Language", "Agent", "Campaign", "Hypothesis", "Model")
_CANONICAL = {name.casefold(): name for name in KNOWN_TRAILERS}
_PROVENANCE = {"hardware", "attempt", "evaluation", "approved-by"}  # of published commits
_UNSAFE_IN_IDENTITY = re.compile(r"[\x00-\x1f\x7f<>]")


@dataclass(frozen=True, slots=True)
class Identity:
    """Who wrote or committed. Raises ValueError where git could not store the name or the address."""

    name: str
    email: str

    def __post_init__(self) -> None:
        for what, value in (("name", self.name), ("email", self.email)):
            if not value.strip() or _UNSAFE_IN_IDENTITY.search(value) or len(value) > 200:
                raise ValueError(f"{what} {value!r} is empty, too long, or holds '<', '>' or a control character")

    @classmethod
    def of_agent(cls, name: str) -> Identity:
        """The one identity under which an agent's commits are accepted."""
        if not NAME_PATTERN.match(name):
            raise ValueError(f"agent name {name!r} must be lower-case letters, digits, '-' or '_'")
        return cls(name, f"{name}@{AGENT_MAIL_DOMAIN}")

    @classmethod
    def of_person(cls, name: str, email: str = "") -> Identity:
        """A reviewer or operator; characters that git could not store are dropped."""
        clean = _UNSAFE_IN_IDENTITY.sub("", name).strip()[:200] or "unknown"
        address = _UNSAFE_IN_IDENTITY.sub("", email).strip()[:200]
        return cls(clean, address or f"{re.sub(r'[^A-Za-z0-9._-]', '-', clean)}@people.kernelyard")


SYSTEM = Identity("Kernelyard", "kernelyard@system.kernelyard")


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """One commit. Text is bounded by the push policy, decoded with replacement, and hostile."""

    oid: str
    tree: str
    parents: tuple[str, ...]
    author_name: str
    author_email: str
    committer_name: str
    committer_email: str
    authored_at: datetime
    committed_at: datetime
    message: str
    subject: str
    body: str
    """The message without its subject and without its trailers."""
    trailers: dict[str, str]
    """The last value of each trailer, keyed by its usual spelling."""
    trailer_pairs: tuple[tuple[str, str], ...] = field(default=())
    """Every trailer as written, in order."""


def parse_commits(output: bytes) -> list[CommitRecord]:
    """The output of ``git log -z --format=COMMIT_FORMAT``. Raises ValueError where it is cut short."""
    parts = output.split(b"\0")[:-1]  # every record ends with NUL, the last one too
    if len(parts) % _FIELDS:
        raise ValueError(f"git log answered {len(parts)} fields, not a multiple of {_FIELDS}")
    return [_commit(parts[start : start + _FIELDS]) for start in range(0, len(parts), _FIELDS)]


def _commit(parts: list[bytes]) -> CommitRecord:
    oid, tree, parents, an, ae, cn, ce, at, ct, message, trailers = (p.decode(errors="replace") for p in parts)
    pairs = tuple(
        (_CANONICAL.get(key.strip().casefold(), key.strip()), value.strip())
        for key, _, value in (item.partition("\x1f") for item in trailers.split("\x1e") if item)
    )
    message = message.strip("\n")
    subject, _, rest = message.partition("\n\n")
    return CommitRecord(
        oid=oid,
        tree=tree,
        parents=tuple(parents.split()),
        author_name=an,
        author_email=ae,
        committer_name=cn,
        committer_email=ce,
        authored_at=_moment(at),
        committed_at=_moment(ct),
        message=message,
        subject=" ".join(subject.split()),
        body=_without_trailers(rest, bool(pairs)),
        trailers=dict(pairs),
        trailer_pairs=pairs,
    )


def _without_trailers(rest: str, has_trailers: bool) -> str:
    rest = rest.strip()
    if not has_trailers:
        return rest
    head, separator, last = rest.rpartition("\n\n")
    # An agent's own "Next: try wider stores" looks like a trailer too, and is part of what it has to say.
    spoken: list[str] = []
    ours = False
    for line in last.splitlines():
        if not line[:1].isspace():  # else it continues the line before
            key = line.partition(":")[0].strip().casefold()
            ours = key in _CANONICAL or key in _PROVENANCE
        if not ours:
            spoken.append(line)
    return "\n\n".join(part.strip() for part in (head if separator else "", "\n".join(spoken)) if part.strip())


def _moment(seconds: str) -> datetime:
    """A commit's time; hostile values are clamped to what a database can hold."""
    try:
        value = int(seconds)
    except ValueError:
        value = 0
    return datetime.fromtimestamp(min(max(value, 0), 32_503_680_000), UTC)


def with_trailers(message: str, trailers: Mapping[str, str], *, join: bool = False) -> str:
    """``message`` and a last paragraph of trailers, each one line of at most 500 characters; empty ones are left out.

    ``join`` continues a paragraph of trailers that the message already ends with. Never for a message that quotes
    someone else: their last paragraph could pose as trailers of ours.
    """
    lines = [f"{key}: {' '.join(value.split())[:500]}" for key, value in trailers.items() if value.strip()]
    text = message.rstrip()
    if not lines:
        return text + "\n"
    last = text.rpartition("\n\n")[2] if "\n\n" in text else ""
    joined = join and bool(last) and all(re.match(r"[A-Za-z][A-Za-z0-9-]*: ", line) for line in last.splitlines())
    return text + ("\n" if joined else "\n\n") + "\n".join(lines) + "\n"
