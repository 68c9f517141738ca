"""Finished builds are kept by content, whole or not at all, whoever else builds or is killed meanwhile."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from agentcore.build import BuildCache, CacheError
from agentcore.build import compile as compile_module
from agentcore.build.recipe import recipe
from agentcore.vocabulary import HardwareName, Language
from tests.build.kernels import DEFINITION, KERNEL_CPP, build_once, problem_of

ROOT = Path(compile_module.__file__).parents[2]


def test_the_same_content_is_compiled_once(compiled, tmp_path):
    first = compiled(KERNEL_CPP)
    again = compiled(KERNEL_CPP, source_dir=tmp_path / "elsewhere")
    assert not first.report.cached and again.report.cached
    assert again.artifact == first.artifact and again.report.key == first.report.key


def test_whatever_changes_the_result_changes_the_key(compiled, tmp_path, monkeypatch):
    keys = [compiled(KERNEL_CPP).report.key]
    keys.append(compiled({"kernel.cpp": KERNEL_CPP, "unused.h": ""}).report.key)
    keys.append(compiled({"renamed.h": ""}).report.key)
    other = {**DEFINITION, "axes": {**DEFINITION["axes"], "columns": {"type": "const", "value": 5}}}
    keys.append(compiled(KERNEL_CPP, of=problem_of(other), source_dir=tmp_path / "b").report.key)
    monkeypatch.setattr(compile_module, "BUILD_VERSION", 999)
    keys.append(compiled(KERNEL_CPP, source_dir=tmp_path / "c").report.key)
    monkeypatch.undo()
    actual = recipe(Language.CPP, HardwareName.CPU)
    for changed in (
        dataclasses.replace(actual, depends=("another CPU",)),
        dataclasses.replace(actual, flags=(*actual.flags, "-g")),
        dataclasses.replace(actual, compiler=dataclasses.replace(actual.compiler, version="another")),
    ):
        monkeypatch.setattr(compile_module, "recipe", lambda *_, changed=changed: changed)
        keys.append(compiled(KERNEL_CPP, source_dir=tmp_path / "c").report.key)
    assert len(set(keys)) == len(keys)


def test_failures_are_not_kept(compiled):
    assert not compiled("broken").report.ok
    built = compiled("broken")
    assert not built.report.ok and not built.report.cached


@pytest.mark.parametrize("damage", ["truncate", "rewrite", "report", "remove"])
def test_a_damaged_entry_is_built_again(compiled, damage):
    artifact = compiled(KERNEL_CPP).artifact
    if damage == "truncate":
        artifact.write_bytes(artifact.read_bytes()[:100])
    elif damage == "rewrite":
        artifact.write_bytes(b"\x7fELF, but not the one that was built")
    elif damage == "report":
        (artifact.parent / "report.json").write_text("{")
    else:
        artifact.unlink()
    built = compiled(KERNEL_CPP)
    assert built.report.ok and not built.report.cached
    ctypes.CDLL(str(built.artifact))
    assert compiled(KERNEL_CPP).report.cached


def test_processes_building_the_same_kernel_at_once_agree(tmp_path, sandbox):
    source = tmp_path / "kernel"
    source.mkdir()
    (source / "kernel.cpp").write_text(KERNEL_CPP)
    with ProcessPoolExecutor(4) as pool:
        results = set(pool.map(build_once, [source] * 8, [tmp_path / "cache"] * 8))
    assert len(results) == 1
    assert next(iter(results))[0]
    assert list((tmp_path / "cache" / "work").iterdir()) == []


def test_a_killed_build_blocks_nobody(compiled, tmp_path):
    endless = tmp_path / "endless"
    endless.mkdir()
    (endless / "kernel.cpp").write_text(
        "constexpr int f() { for (;;) {} return 0; }\n"
        "template <int A, int B> struct U { static constexpr int v = U<A-1, B>::v + U<A-1, B + (1 << A)>::v; };\n"
        "template <int B> struct U<0, B> { static constexpr int v = B & 1; };\nstatic_assert(U<28, 0>::v >= 0);\n"
    )
    program = f"""
import sys
sys.path[:0] = [{str(ROOT)!r}]
from pathlib import Path
from tests.build.kernels import build_once
build_once(Path({str(endless)!r}), Path({str(tmp_path / "cache")!r}))
"""
    child = subprocess.Popen([sys.executable, "-c", program])
    work = tmp_path / "cache" / "work"
    deadline = time.monotonic() + 30
    while not (work.exists() and list(work.glob("*/out"))):
        assert time.monotonic() < deadline and child.poll() is None
        time.sleep(0.01)
    time.sleep(0.2)
    child.kill()
    child.wait()
    assert list(work.iterdir()), "the killed build left its workplace"
    assert compiled(KERNEL_CPP).report.ok
    for left in work.iterdir():
        os.utime(left, (0, 0))
    assert compiled({"more.h": ""}).report.ok
    assert list(work.iterdir()) == []


def test_pruning_removes_the_longest_unused_builds_only(compiled, tmp_path):
    artifacts = [compiled(KERNEL_CPP + f"// {number}\n").artifact for number in range(3)]
    size = sum(file.stat().st_size for file in artifacts[0].parent.iterdir())
    for age, artifact in zip((10_000, 30_000, 20_000), artifacts, strict=True):
        os.utime(artifact.parent, (time.time() - age,) * 2)
    cache = BuildCache(tmp_path / "cache")
    assert cache.prune(max_bytes=10 * size) == 0
    assert cache.prune(max_bytes=2 * size + 100) == 1
    assert [artifact.exists() for artifact in artifacts] == [True, False, True]
    assert cache.prune(max_bytes=0, keep_s=15_000) == 1
    assert [artifact.exists() for artifact in artifacts] == [True, False, False]


def test_a_cache_that_cannot_be_made_is_named(compiled, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CacheError, match=r"build cache .*/file/cache cannot be made: Not a directory"):
        compiled(KERNEL_CPP, cache_dir=tmp_path / "file" / "cache")


def test_a_cache_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    BuildCache(tmp_path)
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    with pytest.raises(CacheError, match="is not writable by uid"):
        BuildCache(tmp_path)
