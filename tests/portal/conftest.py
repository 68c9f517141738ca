"""Every portal test gets its own home directory, so that none touches the repositories or caches of another."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcore.gitstore.repository import SHARED_CONFIGURATION


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


@pytest.fixture(autouse=True)
def without_fsync(monkeypatch) -> None:
    """Repositories of tests need not survive a power cut, and waiting for the disk is most of their time."""
    monkeypatch.setitem(SHARED_CONFIGURATION, "core.fsync", "none")


@pytest.fixture(autouse=True)
def quick_passwords(settings) -> None:
    """Hashing a password slowly is not what these tests are about."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
