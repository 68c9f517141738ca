"""What the attempts repository holds for a page: kernel files and diffs, ready to show.

The only module of the pages that asks the git store. A repository or commit that is missing is a message on the
page, never an error page: the database may know of more than this host's clone.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from django.conf import settings
from django.utils.safestring import SafeString

from agentcore.gitstore import AttemptsRepository, GitStoreError
from agentcore.vocabulary import AttemptRef
from portal.attempts.models import Attempt
from portal.pages import diffs, formatting, highlighting, text

FILES = 40
FILE_BYTES = 200_000
DIFF_LAYOUTS = ("unified", "split")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of a kernel. ``html`` is None for what cannot be shown, and ``note`` says why."""

    path: str
    size: str
    html: SafeString | None
    note: str = ""


def kernel_files(attempt: Attempt) -> tuple[list[SourceFile], str]:
    """The files of the attempt's kernel and, when they cannot be read, the reason."""
    try:
        ref = AttemptRef.parse(attempt.ref)
        with AttemptsRepository.open(settings.ATTEMPTS_REPOSITORY) as repository:
            contents = repository.read_kernel(attempt.commit, ref)
    except (GitStoreError, ValueError, OSError) as error:
        return [], text.label(error)
    files, left = [], highlighting.HIGHLIGHT_BUDGET
    for path, content in sorted(contents.items())[:FILES]:
        files.append(_source_file(path, content, colours=len(content) <= left))
        left -= len(content) if len(content) <= left else 0
    note = f"{len(contents) - FILES} more files are not shown." if len(contents) > FILES else ""
    return files, note


def _source_file(path: str, content: bytes, *, colours: bool) -> SourceFile:
    name, size = text.label(path, 200), formatting.data_size(len(content))
    shown = text.decoded(content, limit=FILE_BYTES)
    if shown is None:
        return SourceFile(name, size, None, "Binary file: not shown.")
    html = highlighting.code(shown.text, path, colours=colours, anchor=line_anchor(path))
    return SourceFile(name, size, html, shown.notice)


def line_anchor(path: str) -> str:
    """What the ids of a source file's lines begin with on its attempt's page; the line's number follows a dash."""
    return f"src-{hashlib.sha256(path.encode('utf-8', 'replace')).hexdigest()[:10]}"


def kernel_diff(base: str | None, attempt: Attempt) -> diffs.Diff:
    """The change of the attempt's kernel against commit ``base`` (None: against nothing)."""
    try:
        ref = AttemptRef.parse(attempt.ref)
        with AttemptsRepository.open(settings.ATTEMPTS_REPOSITORY) as repository:
            unified = repository.diff(base, attempt.commit, ref.kernel_path)
    except (GitStoreError, ValueError, OSError) as error:
        return diffs.Diff(trouble=text.label(error))
    return diffs.parse(unified, strip=ref.kernel_path)


def git_parent(attempt: Attempt) -> str | None:
    """The first parent of the attempt's commit, or None when it has none or cannot be read."""
    try:
        with AttemptsRepository.open(settings.ATTEMPTS_REPOSITORY) as repository:
            parents = repository.commit(attempt.commit).parents
    except (GitStoreError, ValueError, OSError):
        return None
    return parents[0] if parents else None
