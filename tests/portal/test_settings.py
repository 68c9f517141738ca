"""The settings that come from the environment, read by a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
