"""Which language a kernel's directory is written in, seen by its files. Not for deciding what may be in it."""

from __future__ import annotations

from pathlib import Path

from agentcore.problems import DocumentError
from agentcore.vocabulary import Language


class LanguageUnclear(DocumentError):
    """A directory does not show its language. The message names the directory and what to say or to give instead."""


def language_of(directory: Path) -> Language:
    """By the source that a kernel starts from; where that leaves several, by the directory's name (``triton-h200``).

    The Python languages share ``kernel.py``, so that one alone does not tell. Raises LanguageUnclear.
    """
    possible = [language for language in Language if (directory / language.source_name).is_file()]
    if not possible:
        wanted = ", ".join(dict.fromkeys(language.source_name for language in Language))
        raise LanguageUnclear.at(directory, None, "", f"holds none of {wanted}; name the directory of a kernel")
    if len(possible) == 1:
        return possible[0]
    named = directory.resolve().name.partition("-")[0]
    if named in possible:
        return Language(named)
    sources = " and ".join(dict.fromkeys(language.source_name for language in possible))
    choices = ", ".join(f"--language {language}" for language in possible[:-1])
    message = f"{sources} can be several languages; say which: {choices} or --language {possible[-1]}"
    raise LanguageUnclear.at(directory, None, "", message)
