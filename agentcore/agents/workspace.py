"""An agent's own clone, worked on only through git and the repository's ``yard`` client, as any outsider would.

Not for deciding what to try: this is the agent's hands. Nothing here knows the portal's database or its code.
"""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from agentcore.vocabulary import Language

GIT_TIMEOUT_S = 300.0
_ADDRESS_CREDENTIALS = re.compile(r"(https?://)[^/@\s]+@")


class WorkspaceError(RuntimeError):
    """git or yard refused, or the portal is away. The message is theirs, without credentials."""


class Workspace:
    """One isolated clone of the attempts repository. Use from one thread."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def clone(cls, url: str, root: Path) -> Workspace:
        """Clone ``main`` of ``url`` (http://AGENT:TOKEN@HOST/…) into the new directory ``root``.

        The token goes into the clone's configuration, which only its owner reads, and into no command line.
        """
        root.parent.mkdir(parents=True, exist_ok=True)
        address, agent, token = split_credentials(url)
        environment = {}
        if token:
            basic = base64.b64encode(f"{agent}:{token}".encode()).decode()
            environment = {
                "GIT_CONFIG_COUNT": "1",
                "GIT_CONFIG_KEY_0": "http.extraHeader",
                "GIT_CONFIG_VALUE_0": f"Authorization: Basic {basic}",
            }
        command = ["git", "clone", "--quiet", "--single-branch", "--branch", "main", address, str(root)]
        _run(command, root.parent, environment=environment)
        workspace = cls(root)
        if token:
            configuration = root / ".git" / "config"
            configuration.chmod(0o600)
            with configuration.open("a", encoding="utf-8") as file:
                file.write(f'[yard]\n\tagent = "{_quoted(agent)}"\n\ttoken = "{_quoted(token)}"\n')
        return workspace

    def configure(self, key: str, value: str) -> None:
        """Set one key of this clone's own git configuration."""
        self._git("config", key, value)

    # --- what the record holds ---

    def history(self, problem: str, language: Language, hardware: str | None) -> list[dict[str, Any]]:
        """Every attempt at a problem in one language, newest first, with its newest evaluation's summary."""
        arguments = ["history", problem, "--language", language.value, "--limit", "0", "--json"]
        answer = self._yard(*arguments, *(["--hardware", hardware] if hardware else []))
        attempts = answer["attempts"]
        assert isinstance(attempts, list)
        return attempts

    def attempt(self, commit: str) -> dict[str, Any]:
        """One attempt with its evaluations in full."""
        return self._yard("result", commit, "--json")

    def fetch(self, problem: str, language: Language) -> None:
        """Bring the commits of every attempt at a problem here."""
        path = f"attempts/{problem}/{language}/*"
        self._git("fetch", "--quiet", "--no-tags", "origin", f"+refs/heads/{path}:refs/remotes/origin/{path}")

    def read_kernel(self, revision: str, problem: str, language: Language) -> dict[str, bytes]:
        """The files of a kernel at a commit, by path within the kernel's directory; empty where there is none."""
        prefix = f"kernels/{problem}/{language}/"
        listing = _run(["git", "ls-tree", "-r", "-z", "--name-only", revision, prefix], self.root)
        files = {}
        for name in filter(None, listing.decode("utf-8", "surrogateescape").split("\0")):
            files[name.removeprefix(prefix)] = _run(["git", "cat-file", "blob", f"{revision}:{name}"], self.root)
        return files

    # --- making an attempt ---

    def submit(
        self,
        problem: str,
        language: Language,
        slug: str,
        *,
        parent: str | None,
        files: Mapping[str, bytes] | None,
        subject: str,
        hypothesis: str,
        body: str,
        timeout_s: float,
    ) -> dict[str, Any]:
        """Start an attempt from ``parent`` (None: main), write ``files`` (None: leave the kernel as it is), push it
        and wait for the verdict. Returns the attempt with its evaluations.
        """
        origin = ["--from", parent] if parent else []
        self._run_yard(["new", problem, language.value, slug, *origin], timeout_s=GIT_TIMEOUT_S)
        directory = self.root / "kernels" / problem / language.value
        for name, content in (files or {}).items():
            target = directory / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        arguments = ["submit", "--json", "--wait", "--timeout", f"{timeout_s:g}", "-m", subject]
        arguments += ["--hypothesis", hypothesis, "--body-file", "-"]
        arguments += ["--unchanged"] if files is None else []
        try:
            return self._yard(*arguments, input_text=body, timeout_s=timeout_s + GIT_TIMEOUT_S)
        except WorkspaceError:
            self._git("reset", "--quiet", "--hard")  # leave nothing in the way of the next attempt
            raise

    # --- processes ---

    def _git(self, *arguments: str) -> bytes:
        return _run(["git", *arguments], self.root)

    def _yard(self, *arguments: str, input_text: str = "", timeout_s: float = GIT_TIMEOUT_S) -> dict[str, Any]:
        output = self._run_yard(arguments, input_text=input_text, timeout_s=timeout_s)
        try:
            answer = json.loads(output)
        except ValueError:
            raise WorkspaceError(f"yard {arguments[0]} did not answer in JSON: {output[:200]!r}") from None
        if not isinstance(answer, dict):
            raise WorkspaceError(f"yard {arguments[0]} answered {type(answer).__name__}, not an object")
        return answer

    def _run_yard(self, arguments: Sequence[str], *, input_text: str = "", timeout_s: float) -> bytes:
        # Exit codes 1 and 3 are answers too: judged and not passed, and not judged yet. -S: yard needs the standard
        # library alone.
        return _run(
            [sys.executable, "-S", str(self.root / "yard"), *arguments],
            self.root,
            input_bytes=input_text.encode(),
            timeout_s=timeout_s,
            accepted=(0, 1, 3),
        )


def split_credentials(url: str) -> tuple[str, str, str]:
    """``(address, agent, token)`` of an address; the last two are empty where it holds none."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or "@" not in parts.netloc:
        return url, "", ""
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=host)), unquote(parts.username or ""), unquote(parts.password or "")


def _quoted(value: str) -> str:
    """A value inside the quotes of git's configuration."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "")


def _run(
    command: Sequence[str],
    cwd: Path,
    *,
    input_bytes: bytes = b"",
    timeout_s: float = GIT_TIMEOUT_S,
    accepted: Sequence[int] = (0,),
    environment: Mapping[str, str] | None = None,
) -> bytes:
    what = " ".join([Path(part).name for part in command if not part.startswith("-")][:2])
    variables = {**os.environ, "GIT_TERMINAL_PROMPT": "0", **(environment or {})}
    try:
        done = subprocess.run(
            command, cwd=cwd, env=variables, input=input_bytes, capture_output=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise WorkspaceError(f"{what} did not end within {timeout_s:g} s") from None
    except FileNotFoundError:
        raise WorkspaceError(f"{command[0]} is not installed; install the package {command[0]}") from None
    if done.returncode not in accepted:
        if done.returncode in (130, -signal.SIGINT):
            raise KeyboardInterrupt
        said = _ADDRESS_CREDENTIALS.sub(r"\1", done.stderr.decode("utf-8", "replace")).strip()
        raise WorkspaceError(f"{what} failed ({done.returncode}): {said[-2000:]}")
    return done.stdout
