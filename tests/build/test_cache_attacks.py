"""What an author could try on the build cache: to be served another's build, to leave one for somebody, to look.

Keys come from everything that is compiled, entries from the judge's own user alone, and a sandbox sees one entry.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from pathlib import Path

import pytest

from agentcore.build.source import SourceError, read_source
from agentcore.sandbox import Limits
from agentcore.vocabulary import Language
from tests.build.kernels import KERNEL_CPP


def entries(cache: Path) -> set[Path]:
    return set((cache / "done").glob("*/*"))


def test_trees_that_concatenate_to_the_same_bytes_have_keys_of_their_own(compiled, tmp_path):
    trees = [
        {"kernel.cpp": KERNEL_CPP + "// a\n// b\n"},
        {"kernel.cpp": KERNEL_CPP, "a.h": "// a\n// b\n"},
        {"kernel.cpp": KERNEL_CPP + "// a\n", "a.h": "// b\n"},
        {"kernel.cpp": KERNEL_CPP, "a.h": "// a\n", "b.h": "// b\n"},
        {"kernel.cpp": KERNEL_CPP, "a.h": "// b\n", "b.h": "// a\n"},
        {"kernel.cpp": KERNEL_CPP, "a.hb.h": "// a\n// b\n"},
        {"kernel.cpp": KERNEL_CPP, "a/b.h": "// a\n// b\n"},
    ]
    built = [compiled(tree, source_dir=tmp_path / f"kernel{n}") for n, tree in enumerate(trees)]
    assert all(build.artifact for build in built)
    for one, other in itertools.combinations(built, 2):
        assert one.report.key != other.report.key and one.artifact != other.artifact


@pytest.mark.parametrize("name", ["kernel.so", "report.json", "kernel.so.sha256", "entry/kernel.so", "ky_entry.cpp"])
def test_files_named_like_the_caches_own_are_sources_like_any_other(compiled, name):
    built = compiled({"kernel.cpp": KERNEL_CPP, name: "planted\n"})
    assert built.artifact is not None and built.artifact.read_bytes().startswith(b"\x7fELF")
    assert hashlib.sha256(built.artifact.read_bytes()).hexdigest() in (
        (built.artifact.parent / "kernel.so.sha256").read_text()
    )
    assert not built.report.cached
    assert json.loads((built.artifact.parent / "report.json").read_text())["key"] == built.report.key


def test_an_entry_planted_with_a_report_of_its_own_is_not_served_without_its_digest(compiled, tmp_path):
    first = compiled(KERNEL_CPP)
    assert first.artifact is not None
    planted = first.artifact.read_bytes() + b"planted"
    first.artifact.write_bytes(planted)
    again = compiled(KERNEL_CPP)
    assert not again.report.cached and again.artifact is not None and again.artifact.read_bytes() != planted


def test_a_sandbox_that_runs_a_build_sees_no_other_and_can_change_none(compiled, tmp_path, sandbox):
    """The runner's view: the entry alone is bound, for reading, under its own path."""
    other = compiled(KERNEL_CPP + "// somebody else's\n", source_dir=tmp_path / "other")
    own = compiled(KERNEL_CPP)
    assert own.artifact is not None and other.artifact is not None
    before = {path: path.read_bytes() for path in own.artifact.parent.iterdir()}
    script = f"""
        cd {own.artifact.parent} || exit 9
        ls . ; ls .. ; ls ../.. ; ls ../../../work
        cat {other.artifact} > /tmp/copy 2>/dev/null && echo read-another
        echo x > kernel.so && echo overwritten
        rm -f kernel.so; mv kernel.so moved; ln -s /tmp/x planted; mkdir {own.artifact.parents[1]}/planted
        chmod 777 . && echo opened
        true
    """
    done = sandbox.run(
        ["sh", "-c", script], readable=[own.artifact.parent], limits=Limits(wall_s=20), python=False, merge_stderr=True
    )
    said = done.stdout.decode()
    assert done.returncode == 0, said
    assert "kernel.so" in said, "the sandbox did not even see its own entry"
    for word in ("read-another", "overwritten", "opened", other.artifact.parent.name):
        assert word not in said, said
    assert {path: path.read_bytes() for path in own.artifact.parent.iterdir()} == before
    assert entries(tmp_path / "cache") == {own.artifact.parent, other.artifact.parent}


def test_a_compiler_run_sees_no_finished_build(compiled, tmp_path):
    """Not by absolute path, and not from its own directory upwards: another's artefact cannot be linked or embedded."""
    other = compiled(KERNEL_CPP, source_dir=tmp_path / "other")
    assert other.artifact is not None
    key = other.artifact.parent.name
    relative = f"done/{key[:2]}/{key}/kernel.so"
    for path in (str(other.artifact), f"../../{relative}", f"../../../{relative}"):
        embedding = f'asm(".section .rodata\\n.incbin \\"{path}\\"\\n.previous");\n'
        stolen = compiled(f"{KERNEL_CPP}\n{embedding}", source_dir=tmp_path / "thief")
        assert stolen.artifact is None
        assert "file not found" in stolen.report.log or "can't open" in stolen.report.log, stolen.report.log
    assert entries(tmp_path / "cache") == {other.artifact.parent}


@pytest.mark.parametrize("name", ["problem.h.gch/any.h", "rms.h.gch/any.h", "deep/cstdint.pch"])
def test_a_precompiled_header_is_no_source(tmp_path: Path, name: str) -> None:
    (tmp_path / "kernel.cpp").write_text('#include "problem.h"\n')
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_bytes(b"gpch")
    with pytest.raises(SourceError, match="precompiled header"):
        read_source(tmp_path, Language.CPP)
