"""What this host's CPU can do at best, measured and kept. The CPU target's rate table.

Measured by a small C++ program (``calibrate.cpp``), compiled as kernels are. Rates are for all CPUs this process may
use, together. A rate that is too low makes a bound that an honest kernel beats, one that is too high only a bound that
is further away: so the highest of several passes counts, what was measured on a busy host is measured again later, and
a rate that was seen is never lowered.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from importlib import resources
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from agentcore.judge.host_load import HostLoadWatch
from agentcore.judge.noise import QUIET_SHARE

_FORMAT = 1
_SECONDS_PER_RATE = 0.2
_PASSES = 5
_AGAIN_AFTER = timedelta(minutes=30)
_ENOUGH = 8
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
    others_share: float | None = None
    """Of all cores' time, what others had while it was measured (the quietest time counts); None = not known."""
    measurements: int = 1
    """How many these are the highest rates of."""
    format: int = _FORMAT

    @property
    def half_flops(self) -> float:
        """FLOP/s of 16-bit (or narrower) products: the dot-product instructions where the CPU has them, else fp32."""
        return max(self.bf16_flops, self.fp32_flops)

    @property
    def was_quiet(self) -> bool:
        """Whether others are known to have left the host alone at some measurement."""
        return self.others_share is not None and self.others_share <= QUIET_SHARE

    @property
    def is_settled(self) -> bool:
        """Whether the host was quiet at some measurement, or there were so many that another would add little."""
        return self.was_quiet or self.measurements >= _ENOUGH

    def is_due(self, now: datetime) -> bool:
        """Whether to measure again: not settled, and some time has passed, in which the host may have become quiet."""
        return not self.is_settled and now - self.measured_at >= _AGAIN_AFTER

    def raised_to(self, other: CpuRates) -> CpuRates:
        """The higher of each rate of these and ``other``, a later measurement of the same CPU."""
        sizes = self.read_bytes.keys() | other.read_bytes.keys()
        shares = [share for share in (self.others_share, other.others_share) if share is not None]
        return other.model_copy(update={
            "fp32_flops": max(self.fp32_flops, other.fp32_flops),
            "bf16_flops": max(self.bf16_flops, other.bf16_flops),
            "read_bytes": _falling(
                {size: max(self.read_bytes.get(size, 0.0), other.read_bytes.get(size, 0.0)) for size in sizes}
            ),
            "others_share": min(shares, default=None),
            "measurements": self.measurements + other.measurements,
        })  # fmt: skip

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


def rates_file(cache_dir: Path) -> Path:
    """Where below ``cache_dir`` the rates of this CPU are kept, for as many threads as this process may use."""
    key = hashlib.sha256(f"{_FORMAT}\n{_cpu_name()}\n{len(os.sched_getaffinity(0))}".encode()).hexdigest()[:16]
    return Path(cache_dir) / f"cpu-rates-{key}.json"


def calibrate_cpu(cache_dir: Path, *, force: bool = False) -> CpuRates:
    """The rates of this host's CPU: those kept in ``cache_dir``, or measured now (about three seconds).

    What was measured while others used the host is measured again when this is called at least half an hour later;
    ``force`` measures again at once. Either way rates only rise: remove the file to forget them. A cache that cannot be
    written costs a warning's worth of time, not an error. Raises CalibrationError where the compiler is missing or the
    measurement fails, and nothing is kept (or ``force`` is given).
    """
    file = rates_file(cache_dir)
    kept = _kept(file)
    if kept is not None and not force and not kept.is_due(datetime.now(UTC)):
        return kept
    try:
        rates = _measure(_cpu_name(), len(os.sched_getaffinity(0)))
    except CalibrationError:
        if kept is None or force:
            raise
        return kept
    # Read again: another process may have measured meanwhile.
    if (kept := _kept(file) or kept) is not None:
        rates = kept.raised_to(rates)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False, suffix=".tmp") as partial:
            partial.write(rates.model_dump_json(indent=1))
        Path(partial.name).replace(file)
    except OSError:
        pass
    return rates


def _kept(file: Path) -> CpuRates | None:
    try:
        return CpuRates.model_validate_json(file.read_text("utf-8"))
    except (OSError, ValidationError):
        return None


def _falling(read_bytes: Mapping[int, float]) -> dict[int, float]:
    """Rates by working set where a smaller one is never slower than a larger: it fits wherever the larger one does."""
    highest, found = 0.0, {}
    for size in sorted(read_bytes, reverse=True):
        found[size] = highest = max(highest, read_bytes[size])
    return dict(sorted(found.items()))


def _measure(cpu: str, threads: int) -> CpuRates:
    source = resources.files("agentcore.bounds").joinpath("calibrate.cpp").read_text("utf-8")
    with tempfile.TemporaryDirectory(prefix="kernelyard-calibrate-") as directory:
        program = Path(directory) / "calibrate"
        code = program.with_suffix(".cpp")
        code.write_text(source, "utf-8")
        flags = ["-O3", "-march=native", "-std=c++20", "-ffp-contract=fast", "-pthread", "-w"]
        try:
            _run([_COMPILER, *flags, str(code), "-o", str(program)], seconds=120)
            watch = HostLoadWatch()
            watch.start()
            numbers = [threads, _SECONDS_PER_RATE, _PASSES, *_working_sets(threads)]
            output = _run([str(program), *map(str, numbers)], seconds=120)
            load = watch.stop()
        except FileNotFoundError:
            raise CalibrationError(f"{_COMPILER} is not installed; it comes with the package g++") from None
    found = json.loads(output)
    return CpuRates(
        cpu=cpu, threads=threads, fp32_flops=found["fp32_flops"], bf16_flops=found["bf16_flops"],
        read_bytes=_falling({int(size): rate for size, rate in found["read_bytes"].items()}),
        measured_at=datetime.now(UTC),
        others_share=None if load is None else load.taken_share,
    )  # fmt: skip


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
