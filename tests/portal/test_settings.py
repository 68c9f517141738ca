"""The settings that come from the environment, read by a process of their own."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

ROOT = Path(__file__).resolve().parents[2]


def test_an_empty_home_means_the_default(tmp_path: Path) -> None:
    """An empty variable, as `KERNELYARD_HOME= manage.py` sets it, must not put the data into the current directory."""
    package = tmp_path / "portal"
    package.mkdir()
    (package / "settings.py").write_text((ROOT / "portal" / "settings.py").read_text())
    shown = subprocess.run(
        [sys.executable, "-c", "import runpy; print(runpy.run_path('portal/settings.py')['KERNELYARD_HOME'])"],
        cwd=tmp_path, env={**os.environ, "KERNELYARD_HOME": "", "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=60, check=True,
    )
    assert Path(shown.stdout.strip()) == tmp_path / "var"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("KERNELYARD_DEFAULT_GPU", "H200", "'H200' is none of b200, h200, h100"),
        ("KERNELYARD_SANDBOX", "bwrap", "'bwrap' is none of auto, bubblewrap, unshare, none"),
        ("KERNELYARD_WORKERS", "two", "'two' is no whole number from 1"),
        ("KERNELYARD_HOME", "/proc/nowhere", "/proc/nowhere cannot be made: No such file or directory"),
    ],
)
def test_a_misspelt_setting_is_said_at_the_start(
    name: str, value: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "")
    monkeypatch.setenv("KERNELYARD_HOME", str(tmp_path))
    runpy.run_path(str(ROOT / "portal" / "settings.py"))
    monkeypatch.setenv(name, value)
    with pytest.raises(ImproperlyConfigured, match=f"^{name}: {said}$"):
        runpy.run_path(str(ROOT / "portal" / "settings.py"))
