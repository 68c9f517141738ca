from __future__ import annotations

import os
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from agentcore.bounds import cpu
from agentcore.bounds.cpu import CalibrationError, CpuRates, calibrate_cpu
from agentcore.bounds.hardware import rate_table
from agentcore.vocabulary import HardwareName

GPUS = [h for h in HardwareName if h.is_gpu]


@pytest.mark.parametrize("hardware", GPUS)
def test_every_rate_has_a_source_and_wider_units_are_slower(hardware: HardwareName) -> None:
    table = rate_table(hardware)
    for profile in table.profiles:
        rates = table.rates(profile)
        assert all(rate.source and rate.value > 0 for rate in rates.values())
        order = [rates[unit].value for unit in ("fp4", "fp8", "half", "tf32", "fp32") if unit in rates]
        assert order == sorted(order, reverse=True)
        assert rates["memory"].unit == rates["l2"].unit == "byte/s"
        assert rates["l2"].value > rates["memory"].value


@pytest.mark.parametrize("hardware", GPUS)
def test_no_measured_ceiling_is_above_its_peak(hardware: HardwareName) -> None:
    table = rate_table(hardware)
    for name, ceiling in table.ceilings.items():
        assert ceiling.source.startswith("measured")
        assert all(ceiling.value <= rates[name].value for rates in table.profiles.values())


def test_an_unknown_profile_names_the_known_ones() -> None:
    with pytest.raises(KeyError, match="boost, sol-execbench"):
        rate_table(HardwareName.B200).rates("overclocked")
    with pytest.raises(KeyError, match="calibrate_cpu"):
        rate_table(HardwareName.CPU)


def test_the_read_rate_falls_with_size(cpu_rates: CpuRates) -> None:
    found = [cpu_rates.read_rate(1 << shift) for shift in range(10, 36)]
    assert found == sorted(found, reverse=True)
    assert found[0] == 2.5e11
    assert found[-1] == 8e10


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ (package g++) is not installed")
def test_this_cpu_is_measured_once_and_then_read_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu, "_SECONDS_PER_RATE", 0.05)  # not for figures that anybody relies on
    first = calibrate_cpu(tmp_path / "new" / "cache")
    assert first.threads == len(os.sched_getaffinity(0))
    assert first.fp32_flops > 1e9
    assert all(rate > 1e8 for rate in first.read_bytes.values())
    assert list(first.read_bytes) == sorted(first.read_bytes)
    assert list(first.read_bytes.values()) == sorted(first.read_bytes.values(), reverse=True)
    assert first.others_share is not None
    # A second measurement would have another timestamp.
    assert calibrate_cpu(tmp_path / "new" / "cache") == first
    (kept,) = (tmp_path / "new" / "cache").iterdir()
    # Seen on a busy host an hour ago, one rate higher than it can be seen now.
    earlier = first.measured_at - timedelta(hours=1)
    seen = {"others_share": 0.5, "fp32_flops": 1e18, "bf16_flops": 1.0, "measured_at": earlier}
    busy = first.model_copy(update=seen)
    kept.write_text(busy.model_dump_json())
    again = calibrate_cpu(tmp_path / "new" / "cache")
    assert again.measured_at > first.measured_at
    assert again.fp32_flops == 1e18
    assert again.bf16_flops != 1.0 or first.bf16_flops == 0
    assert all(rate >= first.read_bytes[size] for size, rate in again.read_bytes.items())
    assert (again.measurements, list((tmp_path / "new" / "cache").iterdir())) == (2, [kept])
    assert calibrate_cpu(tmp_path / "new" / "cache") == again
    monkeypatch.setenv("PATH", str(tmp_path))  # no compiler: what was kept is better than nothing
    kept.write_text(busy.model_dump_json())
    assert calibrate_cpu(tmp_path / "new" / "cache") == busy
    kept.write_text("{broken")
    with pytest.raises(CalibrationError):
        calibrate_cpu(tmp_path / "new" / "cache")


@pytest.mark.parametrize(
    ("share", "measurements", "minutes", "due"),
    [(0.01, 1, 600, False), (0.3, 1, 20, False), (0.3, 1, 40, True), (None, 1, 40, True), (0.3, 8, 600, False)],
)
def test_a_busy_host_is_measured_again_later_but_not_for_ever(
    cpu_rates: CpuRates, share: float | None, measurements: int, minutes: int, due: bool
) -> None:
    rates = cpu_rates.model_copy(update={"others_share": share, "measurements": measurements})
    assert rates.is_due(rates.measured_at + timedelta(minutes=minutes)) is due


def test_two_measurements_give_the_higher_of_each_rate_and_of_every_larger_working_set(cpu_rates: CpuRates) -> None:
    later = cpu_rates.model_copy(update={
        "fp32_flops": 1e11, "bf16_flops": 2e12, "read_bytes": {8 << 20: 2e11, 64 << 20: 2.45e11}, "others_share": 0.2
    })  # fmt: skip
    both = cpu_rates.raised_to(later)
    assert (both.fp32_flops, both.bf16_flops) == (5e11, 2e12)
    assert both.read_bytes == {4 << 20: 2.5e11, 8 << 20: 2.45e11, 16 << 20: 2.45e11, 64 << 20: 2.45e11, 256 << 20: 8e10}
    assert (both.others_share, both.measurements) == (0.2, 2)


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ (package g++) is not installed")
def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "_SECONDS_PER_RATE", 0.02)
    blocked = tmp_path / "file"
    blocked.touch()
    assert calibrate_cpu(blocked / "cache").fp32_flops > 1e9


def test_a_missing_compiler_is_named_with_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CalibrationError, match="package g"):
        calibrate_cpu(tmp_path)
