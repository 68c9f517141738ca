"""What this host's CPU can do at best, measured once and cached. The CPU target's rate table.

Measured by a small C++ program (``calibrate.cpp``), compiled as kernels are. Rates are for all CPUs this process may
use, together.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import tempfile
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

_FORMAT = 1
_SECONDS_PER_RATE = 0.2
_COMPILER = "g++"


class CalibrationError(RuntimeError):
    """The CPU's rates could not be measured. The message says what to install or look at."""


class CpuRates(BaseModel):
    """Peak rates of one host's CPU: FLOP/s, and bytes/s read by working set in bytes."""

    model_config = ConfigDict(frozen=True)

    cpu: str
    threads: int
    fp32_flops: float
    bf16_flops: float
    read_bytes: dict[int, float]
    measured_at: datetime
    format: int = _FORMAT

    @property
    def half_flops(self) -> float:
        """FLOP/s of 16-bit (or narrower) products: the dot-product instructions where the CPU has them, else fp32."""
        return max(self.bf16_flops, self.fp32_flops)

    def read_rate(self, size: int) -> float:
        """The best rate, in bytes/s, at which ``size`` bytes can arrive: from the shared cache where they fit in it.

        Falls as ``size`` grows. A working set counts down to half of ``size``, so that a cache holding part of the data
        is allowed for.
        """
        fitting = [rate for working_set, rate in self.read_bytes.items() if working_set * 2 >= size]
        return max(fitting) if fitting else self.read_bytes[max(self.read_bytes)]


def default_cache_dir() -> Path:
    """Where rates are cached if nobody says otherwise: ``$KERNELYARD_HOME/cache``, else the user's cache directory."""
    home = os.environ.get("KERNELYARD_HOME")
    if home:
        return Path(home) / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kernelyard"


def calibrate_cpu(cache_dir: Path, *, force: bool = False) -> CpuRates:
    """The rates of this host's CPU, from the cache or measured now (about three seconds).

    ``force`` measures again. A cache that cannot be written costs a warning's worth of time, not an error. Raises
    CalibrationError where the compiler is missing or the measurement fails.
    """
    cpu, threads = _cpu_name(), len(os.sched_getaffinity(0))
    key = hashlib.sha256(f"{_FORMAT}\n{cpu}\n{threads}".encode()).hexdigest()[:16]
    file = Path(cache_dir) / f"cpu-rates-{key}.json"
    if not force:
        try:
            return CpuRates.model_validate_json(file.read_text("utf-8"))
        except (OSError, ValidationError):
            pass
    rates = _measure(cpu, threads)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False, suffix=".tmp") as partial:
            partial.write(rates.model_dump_json(indent=1))
        Path(partial.name).replace(file)
    except OSError:
        pass
    return rates


def _measure(cpu: str, threads: int) -> CpuRates:
    source = resources.files("agentcore.bounds").joinpath("calibrate.cpp").read_text("utf-8")
    with tempfile.TemporaryDirectory(prefix="kernelyard-calibrate-") as directory:
        program = Path(directory) / "calibrate"
        code = program.with_suffix(".cpp")
        code.write_text(source, "utf-8")
        flags = ["-O3", "-march=native", "-std=c++20", "-ffp-contract=fast", "-pthread", "-w"]
        try:
            _run([_COMPILER, *flags, str(code), "-o", str(program)], seconds=120)
            output = _run(
                [str(program), str(threads), str(_SECONDS_PER_RATE), *map(str, _working_sets(threads))], seconds=120
            )
        except FileNotFoundError:
            raise CalibrationError(f"{_COMPILER} is not installed; it comes with the package g++") from None
    found = json.loads(output)
    return CpuRates(cpu=cpu, threads=threads, measured_at=datetime.now(UTC), **found)


def _run(command: list[str], seconds: float) -> str:
    name = Path(command[0]).name
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        raise CalibrationError(f"{name} took more than {seconds:.0f} s; is the host overloaded?") from None
    if done.returncode != 0:
        raise CalibrationError(f"{name} failed ({done.returncode}): {done.stderr[-2000:]}")
    return done.stdout


def _working_sets(threads: int) -> list[int]:
    """Sizes to measure reading at: two inside the shared cache (and beyond the private ones), two beyond it."""
    private = _cache_bytes("SC_LEVEL2_CACHE_SIZE", 1 << 20) * threads
    shared = _cache_bytes("SC_LEVEL3_CACHE_SIZE", 32 << 20)
    inner = max(shared // 8, private * 2)
    return sorted({inner, max(shared // 2, inner), max(2 * shared, 2 * inner), max(8 * shared, 8 * inner)})


def _cache_bytes(name: str, default: int) -> int:
    try:
        size = os.sysconf(name)
    except (ValueError, OSError):
        return default
    return size if size > 0 else default


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = ("model name", "cpu family", "model\t")
    facts = [line.partition(":")[2].strip() for line in lines if line.startswith(named)]
    return " / ".join(dict.fromkeys(facts)) or platform.machine()
