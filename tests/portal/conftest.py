"""Every portal test gets its own home directory, so that none touches the repositories or caches of another."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path: Path, settings) -> Path:
    """A private KERNELYARD_HOME for this test; paths derived from it in the settings follow."""
    root = tmp_path / "home"
    root.mkdir()
    settings.KERNELYARD_HOME = root
    settings.ATTEMPTS_REPOSITORY = root / "attempts.git"
    settings.SOLUTIONS_REPOSITORY = root / "solutions.git"
    settings.CACHE_DIR = root / "cache"
    return root
