"""Keeps a judge process up for a worker, with deadlines enforced from outside. Imports neither torch nor Django.

Not for judging: that is evaluate.py, in the other process.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentcore.judge.result import EvaluationResult
from agentcore.vocabulary import HardwareName, Language

START_TIMEOUT_S = 120.0
EPITAPH_S = 2.0

_KEPT = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV",
    "XDG_CACHE_HOME", "KERNELYARD_HOME", "KERNELYARD_GPU_INDEX", "KERNELYARD_BLOBS",
})
_KEPT_PREFIXES = ("LC_", "CUDA_", "NVIDIA_", "TORCH_", "TORCHINDUCTOR_", "TRITON_")


class JudgeFailure(Exception):
    """The judge itself failed; says nothing about the candidate. An infrastructure error."""


class JudgeDied(JudgeFailure):
    """The judge process ended in the middle of an evaluation."""


class JudgeTimeout(JudgeFailure):
    """The judge did not finish by the deadline and was killed with everything it had started."""


def judge_environment() -> dict[str, str]:
    """What a judge needs of the worker's environment, by name, so that a secret of any other name stays out."""
    package_root = str(Path(__file__).resolve().parents[2])
    kept = {k: v for k, v in os.environ.items() if k in _KEPT or k.startswith(_KEPT_PREFIXES)}
    return {**kept, "PYTHONPATH": package_root, "PYTHONUNBUFFERED": "1"}


@dataclass(frozen=True, slots=True)
class Opponent:
    """The earlier kernel that a kernel is compared with, in turn, for so many rounds, within ``budget_s`` seconds where
    that many take longer (see paired.py).
    """

    kernel_dir: Path
    language: Language
    rounds: int
    budget_s: float = 600.0


class JudgeService:
    """One judge process for one hardware class, or for compiling only. Not thread-safe; a context manager.

    ``should_abort`` of :meth:`evaluate` lets the caller give up early (a lost lease): the judge is killed and
    JudgeDied raised.
    """

    def __init__(
        self, hardware: HardwareName, cache_dir: Path, log_path: Path | None = None, sandbox: str = "auto", *,
        compile_only: bool = False,
    ) -> None:
        self.hardware, self.cache_dir, self.log_path, self.sandbox = hardware, cache_dir, log_path, sandbox
        self.compile_only = compile_only
        self._process: subprocess.Popen[bytes] | None = None
        self._answers = -1
        self._buffer = b""

    def __enter__(self) -> JudgeService:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The judge's process id while it is up."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def evaluate(
        self,
        problem_dir: Path,
        kernel_dir: Path,
        language: Language,
        *,
        deadline_s: float,
        options: Mapping[str, Any] | None = None,
        against: Opponent | None = None,
        sanitize: bool = False,
        progress: Callable[[str], None] | None = None,
        should_abort: Callable[[], bool] = lambda: False,
    ) -> EvaluationResult:
        """Judge one kernel within ``deadline_s`` seconds, starting the judge if need be.

        ``options`` are further fields of EvaluationRequest (quick, heldout, workload_uuids). With ``against`` both
        kernels are judged in turn, and the result has a ``comparison``. With ``sanitize`` sanitizers look at the kernel
        and nothing is measured; the result has a ``sanitizer`` report. Raises JudgeTimeout, JudgeDied or JudgeFailure;
        after any of them the next call starts a fresh judge.
        """
        deadline = time.monotonic() + deadline_s
        try:
            if self.pid is None:
                self._start(min(deadline, time.monotonic() + START_TIMEOUT_S))
            request: dict[str, Any] = {
                "problem_dir": str(problem_dir), "kernel_dir": str(kernel_dir), "language": language.value,
                "options": dict(options or {}),
            }
            if sanitize:
                request["sanitize"] = True
            if against is not None:
                request["against"] = {
                    "kernel_dir": str(against.kernel_dir), "language": against.language.value, "rounds": against.rounds,
                    "budget_s": against.budget_s,
                }
            assert self._process is not None and self._process.stdin is not None
            try:
                self._process.stdin.write(json.dumps(request).encode() + b"\n")
                self._process.stdin.flush()
            except BrokenPipeError as error:
                raise JudgeDied(self._epitaph()) from error
            while True:
                answer = self._answer(deadline, should_abort)
                if answer["op"] == "progress" and progress:
                    progress(str(answer["text"]))
                elif answer["op"] == "result":
                    try:
                        return EvaluationResult.model_validate(answer["result"])
                    except ValueError as error:
                        raise JudgeFailure(f"the judge gave no valid result: {error}"[:4000]) from error
                elif answer["op"] == "failed":
                    raise JudgeFailure(str(answer["message"]))
        except (JudgeTimeout, JudgeDied):
            self.close()
            raise

    def close(self) -> None:
        """Kill the judge and everything it started. Safe to call twice."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.wait()
        for stream in (process.stdin,):
            if stream:
                with contextlib.suppress(OSError):
                    stream.close()
        os.close(self._answers)
        self._answers, self._buffer = -1, b""

    def _start(self, deadline: float) -> None:
        self.close()
        self.cache_dir.mkdir(parents=True, exist_ok=True)
        reading, writing = os.pipe()
        log = self.log_path.open("ab") if self.log_path else None
        try:
            self._process = subprocess.Popen(
                [
                    sys.executable, "-m", "agentcore.judge.serve", "--hardware", self.hardware.value, "--cache-dir",
                    str(self.cache_dir), "--sandbox", self.sandbox, "--answer-fd", str(writing),
                    *(["--compile-only"] if self.compile_only else []),
                ],
                stdin=subprocess.PIPE, stdout=log or subprocess.DEVNULL, stderr=log or None, pass_fds=[writing],
                start_new_session=True, env=judge_environment(),
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
            if log:
                log.close()
        self._answers, self._buffer = reading, b""
        answer = self._answer(deadline, lambda: False)
        if answer["op"] != "ready":
            raise JudgeDied(f"the judge began with {answer!r:.200}")

    def _answer(self, deadline: float, should_abort: Callable[[], bool]) -> dict[str, Any]:
        while b"\n" not in self._buffer:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise JudgeTimeout("the judge did not finish by its deadline")
            if should_abort():
                raise JudgeDied("the evaluation was given up by its worker")
            readable, _, _ = select.select([self._answers], [], [], min(remaining, 0.5))
            if readable:
                data = os.read(self._answers, 1 << 16)
                if not data:
                    raise JudgeDied(self._epitaph())
                self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _epitaph(self) -> str:
        """How it ended. Its pipe closes a moment before it can be asked for its status."""
        code = None
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self._process.wait(EPITAPH_S)
        where = f"; its log is {self.log_path}" if self.log_path else ""
        return f"the judge process ended (status {code}) before it answered{where}"
