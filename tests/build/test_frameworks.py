"""What a language's package is called, and that a host without it is told what to install."""

from __future__ import annotations

import importlib.util
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from agentcore.build.frameworks import _LEAST, FrameworkMissing, framework_version
from agentcore.vocabulary import Language


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    framework_version.cache_clear()
    yield
    framework_version.cache_clear()


@pytest.mark.parametrize(
    ("language", "remedy"), [(Language.CUTE, r"pip install -e '\.\[cute\]'"), (Language.TRITON, "install triton")],
    ids=["cute", "triton"],
)
def test_a_host_without_the_package_is_told_which_one(
    monkeypatch: pytest.MonkeyPatch, language: Language, remedy: str
) -> None:
    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", absent)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(FrameworkMissing, match=rf"{language} kernels need .*, which this host lacks; .*{remedy}"):
        framework_version(language)
    for other in (Language.CPP, Language.CUDA, Language.TORCH):
        assert framework_version(other) == ""


def test_triton_by_another_packages_name_is_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", absent)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object() if name == "triton" else None)
    assert framework_version(Language.TRITON) == "triton"
    with pytest.raises(FrameworkMissing):
        framework_version(Language.CUTE)


def test_a_package_that_is_here_is_named_with_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: {"nvidia-cutlass-dsl": "9.9"}[name])
    assert framework_version(Language.CUTE) == "nvidia-cutlass-dsl 9.9"


@pytest.mark.parametrize("version", ["4.4.2", "4.7.9.dev1", "3.12"])
def test_one_too_old_is_told_from_one_that_is_not_there(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: version)
    with pytest.raises(FrameworkMissing, match=rf"need \S+ 4\.8, and this host has {version}; .*\[cute\]"):
        framework_version(Language.CUTE)


def test_what_is_asked_for_is_what_the_extra_installs() -> None:
    extras = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text())["project"]
    least = ".".join(map(str, _LEAST[Language.CUTE]))
    assert extras["optional-dependencies"]["cute"] == [f"nvidia-cutlass-dsl>={least},<5"]
