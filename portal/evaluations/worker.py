"""Judging one claimed evaluation after another, in a django-q2 worker process of one hardware class.

The worker never touches torch or CUDA: a `JudgeService` child process does, kept up between evaluations. The worker
only claims rows, exports the kernel from git, keeps the lease alive and records what the judge says. It never raises:
whatever goes wrong becomes a requeued row or an `infra_error`. Not for queue rules (queue.py).
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from django.conf import settings
from django.db import DatabaseError, connection

from agentcore.gitstore import AttemptsRepository, GitStoreError
from agentcore.judge.result import EvaluationResult
from agentcore.vocabulary import AttemptRef, HardwareName, Language, Verdict
from portal.evaluations import queue
from portal.evaluations.models import Evaluation
from portal.evaluations.queue import Claim
from portal.problems.models import Problem

logger = logging.getLogger(__name__)


class Judge(Protocol):
    """What the worker needs of `agentcore.judge.service.JudgeService`."""

    def evaluate(
        self, problem_dir: Path, kernel_dir: Path, language: Language, *, deadline_s: float,
        should_abort: Callable[[], bool],
    ) -> EvaluationResult: ...

    def close(self) -> None: ...


def start_judge(hardware: HardwareName) -> Judge:
    """The real judge of this host; its log goes under the home directory."""
    from agentcore.judge.service import JudgeService

    logs = Path(settings.KERNELYARD_HOME) / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    return JudgeService(
        hardware, Path(settings.CACHE_DIR), log_path=logs / f"judge-{hardware}-{os.getpid()}.log",
        sandbox=settings.SANDBOX,
    )


class Worker:
    """Claims and judges rows of one hardware class. One per process; `run` is called from its main thread only."""

    def __init__(
        self, hardware: HardwareName | str, judge_factory: Callable[[HardwareName], Judge] = start_judge
    ) -> None:
        self.hardware = HardwareName(hardware)
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        self._judge_factory = judge_factory
        self._judge: Judge | None = None
        self._lock = threading.RLock()
        self._idle: threading.Timer | None = None

    def run(self, *, budget_s: float, after_each: Callable[[], object] = lambda: None) -> tuple[int, bool]:
        """Judge rows until none is left or ``budget_s`` seconds passed. Returns (judged, whether rows may be left).

        ``after_each`` runs between evaluations; it must not raise.
        """
        self._cancel_idle_close()
        started, judged = time.monotonic(), 0
        try:
            while time.monotonic() - started < budget_s:
                claim = queue.claim(self.hardware, self.name)
                if claim is None:
                    return judged, False
                self._judge_one(claim)
                judged += 1
                after_each()
            return judged, True
        finally:
            self._close_when_idle()

    def close(self) -> None:
        """End the judge process. Safe to call at any time, from any thread."""
        self._cancel_idle_close()
        self._drop_judge()

    def _judge_one(self, claim: Claim) -> None:
        heartbeat = Heartbeat(claim)
        try:
            evaluation = Evaluation.objects.select_related("attempt__problem").get(pk=claim.evaluation_id)
            with heartbeat:
                result = self._measure(evaluation, should_abort=lambda: heartbeat.lost)
            if heartbeat.lost:
                return
            imported = Problem.objects.values_list("digest", flat=True).get(pk=evaluation.attempt.problem_id)
            if result.problem_digest != imported:
                queue.give_up(
                    claim, f"the files in {evaluation.attempt.problem.directory()} on {self.name} are not the problem "
                           f"as imported; run importproblems, or update this host",
                )
            elif result.verdict is Verdict.INFRA_ERROR and not claim.is_last:
                queue.give_up(claim, result.message or "the judge reported an infrastructure error")
            else:
                queue.finish(claim, result)
        except BaseException as error:
            # BaseException: django-q2's timeout is a SystemExit. The judge's state is unknown, so it goes too.
            self._drop_judge()
            if heartbeat.lost:
                logger.warning("evaluation %s: lease lost while judging, judge stopped", claim.evaluation_id)
                return
            logger.exception("evaluation %s could not be judged", claim.evaluation_id)
            self._give_up(claim, f"{type(error).__name__}: {error}")

    def _give_up(self, claim: Claim, message: str) -> None:
        try:
            queue.give_up(claim, message)
        except DatabaseError:
            # The lease expires by itself and the reaper requeues the row.
            logger.exception("evaluation %s could not be given back", claim.evaluation_id)

    def _measure(self, evaluation: Evaluation, should_abort: Callable[[], bool]) -> EvaluationResult:
        attempt = evaluation.attempt
        exports = Path(settings.CACHE_DIR) / "exports"
        exports.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"evaluation-{evaluation.pk}-", dir=exports) as directory:
            Path(directory).chmod(0o755)  # the sandbox reads it under another uid
            kernel = Path(directory) / "kernel"
            with AttemptsRepository.open(Path(settings.ATTEMPTS_REPOSITORY)) as repository:
                if not repository.has_commit(attempt.commit):
                    raise GitStoreError(f"commit {attempt.commit} is not in {repository.path} on this host")
                repository.export_kernel(attempt.commit, AttemptRef.parse(attempt.ref), kernel)
            with self._lock:
                if self._judge is None:
                    self._judge = self._judge_factory(self.hardware)
                judge = self._judge
            return judge.evaluate(
                attempt.problem.directory(), kernel, Language(attempt.language),
                deadline_s=settings.EVALUATION_DEADLINE_S, should_abort=should_abort,
            )

    def _drop_judge(self) -> None:
        with self._lock:
            judge, self._judge = self._judge, None
        if judge is not None:
            with contextlib.suppress(Exception):
                judge.close()

    def _close_when_idle(self) -> None:
        with self._lock:
            if self._judge is not None:
                self._idle = threading.Timer(settings.JUDGE_IDLE_S, self._drop_judge)
                self._idle.daemon = True
                self._idle.start()

    def _cancel_idle_close(self) -> None:
        with self._lock:
            if self._idle is not None:
                self._idle.cancel()
                self._idle = None


class Heartbeat:
    """Renews a claim's lease from its own thread for the length of a ``with`` block; ``lost`` is set if it is gone."""

    def __init__(self, claim: Claim) -> None:
        self.lost = False
        self._claim = claim
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name=f"lease-{claim.evaluation_id}", daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(timeout=settings.EVALUATION_LEASE_S)

    def _beat(self) -> None:
        interval = settings.EVALUATION_LEASE_S / 3
        try:
            while not self._stop.wait(interval):
                try:
                    alive = queue.renew(self._claim)
                except DatabaseError:
                    # The database may be back before the lease ends; if not, the fence refuses the late result.
                    logger.exception("evaluation %s: lease not renewed", self._claim.evaluation_id)
                    connection.close()
                    continue
                if not alive:
                    self.lost = True
                    return
        finally:
            connection.close()
