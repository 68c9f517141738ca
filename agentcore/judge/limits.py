"""T_SOL of the workloads that a judge is given, each counted once. On the CPU target for the rates of this very host.

How a bound is counted is agentcore.bounds; what it is compared with is evaluate.py.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from agentcore.bounds.bound import BoundUnavailable, bound
from agentcore.bounds.cpu import CalibrationError, CpuRates, calibrate_cpu
from agentcore.judge.result import BoundRecord
from agentcore.problems import Workload
from agentcore.problems.tensors import InputFactory
from agentcore.vocabulary import HardwareName


class Limits:
    """Bounds for one hardware class. On a CPU the first measures this host (a few seconds), unless ``cache_dir`` has
    its rates; where that fails bounds say why they are missing.
    """

    def __init__(self, hardware: HardwareName, cache_dir: Path) -> None:
        self._hardware, self._cache_dir = hardware, cache_dir
        self._found: dict[tuple[str, str], BoundRecord | str] = {}
        self._rates: CpuRates | None = None
        if not hardware.is_gpu:
            # The bound is that of the whole host, not of the cores a candidate is asked to keep to.
            with suppress(CalibrationError):
                self._rates = calibrate_cpu(cache_dir)

    def measure_again(self) -> None:
        """Measure this CPU again where that is due: its rates were only seen while others used it. Else do nothing.

        To be called with the device to oneself.
        """
        if self._rates is not None and self._rates.is_due(datetime.now(UTC)):
            self._rates = calibrate_cpu(self._cache_dir)
            self._found.clear()

    def of(self, factory: InputFactory, workload: Workload) -> BoundRecord | str:
        """T_SOL of a workload of the problem that ``factory`` makes inputs for, or the reason there is none."""
        key = (factory.problem.digest, workload.uuid)
        if key not in self._found:
            try:
                self._found[key] = bound(
                    factory.problem, workload, self._hardware, factory=factory, cpu_rates=self._rates
                )
            except BoundUnavailable as error:
                self._found[key] = str(error)
        return self._found[key]
