"""Judging one claimed evaluation after another, in a django-q2 worker process of one hardware class.

The worker never touches torch or CUDA: a `JudgeService` child process does, kept up between evaluations. The worker
only claims rows, has the kernel exported, keeps the lease alive and records what the judge says. It never raises:
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
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Protocol

from django.conf import settings
from django.db import DatabaseError, connection

from agentcore.baselines import BaselineKind
from agentcore.gitstore import GitStoreError, Unreachable
from agentcore.judge.result import EvaluationResult
from agentcore.judge.service import Opponent
from agentcore.vocabulary import HardwareName, Language, Verdict
from portal.attempts.models import Attempt
from portal.evaluations import materials, queue
from portal.evaluations.materials import WrongProblem
from portal.evaluations.models import Evaluation
from portal.evaluations.queue import Claim

logger = logging.getLogger(__name__)

KINDS = (Evaluation.Kind.MEASURE, Evaluation.Kind.COMPARE, Evaluation.Kind.SANITIZE)
"""What a worker with a device knows how to do."""


class Judge(Protocol):
    """What the worker needs of `agentcore.judge.service.JudgeService`."""

    def evaluate(
        self, problem_dir: Path, kernel_dir: Path, language: Language, *, deadline_s: float,
        should_abort: Callable[[], bool], options: Mapping[str, Any] | None = None, against: Opponent | None = None,
        sanitize: bool = False,
    ) -> EvaluationResult: ...

    def close(self) -> None: ...


def start_judge(hardware: HardwareName, *, compile_only: bool = False) -> Judge:
    """The real judge of this host; its log goes under the home directory."""
    from agentcore.judge.service import JudgeService

    logs = Path(settings.KERNELYARD_HOME) / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    name = "compiler" if compile_only else "judge"
    return JudgeService(
        hardware, Path(settings.CACHE_DIR), log_path=logs / f"{name}-{hardware}-{os.getpid()}.log",
        sandbox=settings.SANDBOX, compile_only=compile_only,
    )


def start_compiler(hardware: HardwareName) -> Judge:
    """A judge for compile-only evaluations: it needs a compiler of this host, and no device."""
    return start_judge(hardware, compile_only=True)


class Worker:
    """Claims and judges rows of one hardware class and of some kinds. `run` is called from its main thread only."""

    def __init__(
        self, hardware: HardwareName | str, judge_factory: Callable[[HardwareName], Judge] = start_judge,
        kinds: Collection[str] = KINDS,
    ) -> None:
        self.hardware, self.kinds = HardwareName(hardware), kinds
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        self._judge_factory = judge_factory
        self._judge: Judge | None = None
        self._lock = threading.RLock()
        self._idle: threading.Timer | None = None
        self._portal_lost = False

    def run(self, *, budget_s: float, after_each: Callable[[], object] = lambda: None) -> tuple[int, bool]:
        """Judge rows until none is left or ``budget_s`` seconds passed. Returns (judged, whether rows may be left).

        Where the portal's git address does not answer, rows are left to hosts that reach it, or until it answers.
        ``after_each`` runs between evaluations; it must not raise.
        """
        self._cancel_idle_close()
        started, judged = time.monotonic(), 0
        try:
            while time.monotonic() - started < budget_s:
                if not self._portal_answers():
                    return judged, False
                claim = queue.claim(self.hardware, self.name, self.kinds)
                if claim is None:
                    return judged, False
                if self._judge_one(claim):
                    judged += 1
                after_each()
            return judged, True
        finally:
            self._close_when_idle()

    def close(self) -> None:
        """End the judge process. Safe to call at any time, from any thread."""
        self._cancel_idle_close()
        self._drop_judge()

    def _portal_answers(self) -> bool:
        """Look again after a fetch failed: claiming the whole queue only to hand it back would help nobody."""
        if self._portal_lost:
            try:
                materials.mirror().check()
            except GitStoreError as error:
                logger.warning("%s claims nothing: %s", self.name, error)
                return False
            self._portal_lost = False
        return True

    def _judge_one(self, claim: Claim) -> bool:
        """Judge one row, or put it back. False: nothing was tried, because its kernel could not be had."""
        heartbeat = Heartbeat(claim)
        try:
            evaluation = Evaluation.objects.select_related("attempt__problem", "against__problem").get(
                pk=claim.evaluation_id
            )
            with heartbeat:
                result = self._measure(evaluation, should_abort=lambda: heartbeat.lost)
            if heartbeat.lost:
                return True
            # Looked at before measuring too; whatever the judge read is what counts.
            materials.require_imported(evaluation.attempt.problem, result.problem_digest, self.name)
            if result.verdict is Verdict.INFRA_ERROR and not claim.is_last:
                queue.give_up(claim, result.message or "the judge reported an infrastructure error")
            else:
                queue.finish(claim, result)
        except Unreachable as error:
            self._portal_lost = True
            logger.warning("evaluation %s is handed back: %s", claim.evaluation_id, error)
            self._put_back(queue.hand_back, claim, f"{self.name}: {error}")
            return False
        except WrongProblem as error:
            logger.error("evaluation %s: %s", claim.evaluation_id, error)
            self._put_back(queue.give_up, claim, str(error))
        except BaseException as error:
            # BaseException: django-q2's timeout is a SystemExit. The judge's state is unknown, so it goes too.
            self._drop_judge()
            if heartbeat.lost:
                logger.warning("evaluation %s: lease lost while judging, judge stopped", claim.evaluation_id)
                return True
            logger.exception("evaluation %s could not be judged", claim.evaluation_id)
            self._put_back(queue.give_up, claim, f"{type(error).__name__}: {error}")
        return True

    def _put_back(self, how: Callable[[Claim, str], bool], claim: Claim, message: str) -> None:
        try:
            how(claim, message)
        except DatabaseError:
            # The lease expires by itself and the reaper requeues the row.
            logger.exception("evaluation %s could not be given back", claim.evaluation_id)

    def _measure(self, evaluation: Evaluation, should_abort: Callable[[], bool]) -> EvaluationResult:
        attempt, started = evaluation.attempt, time.monotonic()
        problem = materials.problem_directory(attempt.problem, self.name)
        exports = Path(settings.CACHE_DIR) / "exports"
        exports.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"evaluation-{evaluation.pk}-", dir=exports) as directory:
            Path(directory).chmod(0o755)  # the sandbox reads it under another uid
            kernel = Path(directory) / "kernel"
            materials.export_kernel(attempt, kernel)
            more = _beyond_measuring(evaluation, Path(directory) / "against")
            with self._lock:
                if self._judge is None:
                    self._judge = self._judge_factory(self.hardware)
                judge = self._judge
            return judge.evaluate(
                problem, kernel, Language(attempt.language),
                deadline_s=settings.EVALUATION_DEADLINE_S - (time.monotonic() - started), should_abort=should_abort,
                **more,
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


def _beyond_measuring(evaluation: Evaluation, destination: Path) -> dict[str, Any]:
    """What the judge is asked beyond a measurement: of a comparison, the earlier kernel, exported.

    A baseline that is compiled in its first calls is given more time for them than an agent's attempt.
    """
    attempt = evaluation.attempt
    if evaluation.kind == Evaluation.Kind.MEASURE and attempt.kind == Attempt.Kind.BASELINE:
        kind = BaselineKind.of_slug(attempt.slug)
        limit_s = kind.first_call_limit_s if kind else None
        return {"options": {"first_call_timeout_s": limit_s}} if limit_s else {}
    if evaluation.kind == Evaluation.Kind.SANITIZE:
        return {"sanitize": True}
    if evaluation.kind != Evaluation.Kind.COMPARE:
        return {}
    if evaluation.against is None:
        raise ValueError(f"evaluation {evaluation.pk} is a comparison with nothing: ask for it again")
    materials.export_kernel(evaluation.against, destination)
    return {"against": Opponent(
        destination, Language(evaluation.against.language), settings.COMPARISON_ROUNDS, settings.COMPARISON_BUDGET_S
    )}


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
