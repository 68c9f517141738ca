"""One judge kept up as a service, as a worker's is, and what is asked of it after anything that goes wrong."""

from __future__ import annotations

import fcntl
import itertools
import os
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from agentcore.build import build
from agentcore.judge.result import EvaluationResult
from agentcore.judge.service import JudgeService
from agentcore.judge.stamp import host_uuid
from agentcore.problems import load_problem
from agentcore.sandbox import Sandbox
from agentcore.vocabulary import CheckName, HardwareName, Language, Verdict
from tests.judge.conftest import (
    DOUBLE,
    DOUBLE_KERNEL,
    candidates_of,
    failing,
    wait_until,
    whole_kernel,
    workload,
    write_kernel,
    write_problem,
)

QUICK: dict[str, Any] = {"quick": True, "call_timeout_s": 3.0}
HEADERS = "".join(f"#include <{name}>\n" for name in ("cstdio", "fcntl.h", "pthread.h", "sys/mman.h"))


class Yard:
    """One judge kept up, and kernels for the problem y = 2x."""

    def __init__(self, root: Path, cache_dir: Path) -> None:
        root.chmod(0o755)
        self.root, self._numbers = root, itertools.count()
        self.problem = write_problem(root / "problem", DOUBLE, [workload("a"), workload("b", {"n": 5000})])
        self.service = JudgeService(HardwareName.CPU, cache_dir, root / "judge.log")
        self.honest = self.kernel(DOUBLE_KERNEL)

    def kernel(self, body: str) -> Path:
        return write_kernel(self.root / f"kernel{next(self._numbers)}", HEADERS + whole_kernel(body, self.problem))

    def build_ahead(self, bodies: Iterable[str], sandbox: Sandbox) -> None:
        """Fill the judge's build cache, as many at a time as there are cores: one compiler leaves the others idle."""
        problem, builds = load_problem(self.problem), self.service.cache_dir / "builds"

        def one(body: str) -> None:
            kernel = self.kernel(body)
            build(kernel, problem, Language.CPP, HardwareName.CPU, cache_dir=builds, sandbox=sandbox)

        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            for _ in pool.map(one, bodies):
                pass

    def judge(
        self, kernel: Path, language: Language = Language.CPP, *, problem: Path | None = None,
        deadline_s: float = 100, **options: Any,
    ) -> EvaluationResult:
        """A result that no busy machine has a part in."""
        for _ in range(4):
            result = self.service.evaluate(
                problem or self.problem, kernel, language, deadline_s=deadline_s, options={**QUICK, **options}
            )
            if CheckName.QUIET_DEVICE not in failing(result):
                break
        return result

    def is_unharmed(self) -> None:
        """The device is free, nothing of a candidate is left, and an honest kernel passes."""
        assert device_is_free()
        if self.service.pid is not None:
            assert wait_until(lambda: not candidates_of(self.service.pid or 0))
        result = self.judge(self.honest)
        assert result.verdict is Verdict.PASSED, result.message


def device_is_free() -> bool:
    """Whether nobody holds the lock of this host's CPU target."""
    directory = Path(tempfile.gettempdir()) / f"kernelyard-devices-{os.getuid()}"
    with (directory / f"{host_uuid()}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
