"""What a kernel uses is read from its binary: what a source printed is none of it, and a hostile file is bounded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agentcore.build import Build, binary, toolchain
from agentcore.build.binary import parse_usage, with_resources
from agentcore.build.toolchain import Compiler, ToolMissing, find_tool
from agentcore.judge.result import BuildReport
from agentcore.sandbox import Sandbox
from agentcore.vocabulary import Language
from tests.build.kernels import KERNEL_CU

DUMP = """\

Fatbin elf code:
================
arch = sm_90a
code version = [1,8]
host = linux
compile_size = 64bit

Resource usage:
 Common:
  GLOBAL:6 CONSTANT[4]:16
 Function _Z5scaleILi128EEvPKfPfl:
  REG:10 STACK:0 SHARED:1536 LOCAL:0 CONSTANT[0]:552 TEXTURE:0 SURFACE:0 SAMPLER:0
 Function _Z5spillPKfPfi:
  REG:24 STACK:304 SHARED:0 LOCAL:8 CONSTANT[0]:548 CONSTANT[2]:4 TEXTURE:0 SURFACE:0 SAMPLER:0
"""
CLAIM = r"\nptxas info    : Compiling entry function '{name}' for 'sm_90a'\nptxas info    : Used 8 registers\n"
REPORT = BuildReport(ok=True, language=Language.CUDA, arch="sm_90a")
LOG = CLAIM.format(name="_Z5spillPKfPfi").replace(r"\n", "\n")


def test_a_dump_is_read_function_by_function() -> None:
    scale, spill = parse_usage(DUMP, "")
    assert (scale.name, scale.arch, scale.registers) == ("_Z5scaleILi128EEvPKfPfl", "sm_90a", 10)
    assert (scale.shared_bytes, scale.stack_bytes, scale.constant_bytes) == (512, 0, 552)
    assert (spill.registers, spill.shared_bytes, spill.stack_bytes, spill.constant_bytes) == (24, 0, 312, 552)
    assert spill.spill_store_bytes is spill.spill_load_bytes is spill.barriers is None
    (bare,) = parse_usage(" Function f:\n  REG:4 STACK:0 SHARED:0\n" * 2, "sm_100a")
    assert (bare.name, bare.arch) == ("f", "sm_100a")


def test_a_dump_of_nonsense_is_bounded() -> None:
    many = "".join(f" Function f{number}:\n  REG:{number} STACK:0\n" for number in range(5000))
    assert len(parse_usage(many, "sm_90a")) == binary.MAX_KERNELS + 1
    odd = f" Function {'f' * 9000}:\n  REG:{'9' * 500} STACK:UNKNOWN SHARED:-1\n Function g:\n  REG:1\n  REG:2\n"
    (kernel, other) = parse_usage(odd, "sm_90a")
    assert len(kernel.name) == 300 and (kernel.registers, kernel.shared_bytes) == (None, 0)
    assert other.name == "g"


@pytest.mark.parametrize(
    ("script", "note"),
    [
        ("echo $PWD/kernel.so: bad >&2; exit 3", "cuobjdump ended with status 3 on what was built: kernel.so: bad"),
        ("sleep 600", "cuobjdump took too long on what was built"),
        ("kill -KILL $$", "cuobjdump ended with status 137 on what was built"),
        ("exit 0", "cuobjdump finds no device function in what was built, and the compiler's log names some"),
    ],
)
def test_where_it_gives_no_answer_the_report_is_a_claim_and_says_why(
    script: str, note: str, tmp_path: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scripts stand for a cuobjdump that a file made for it has broken."""
    monkeypatch.setattr(binary, "_LIMITS", replace(binary._LIMITS, wall_s=0.2 if "sleep" in script else 60))
    report = with_resources(REPORT, b"\x7fELF", LOG, tmp_path, _stand_in(script, tmp_path, monkeypatch, sandbox))
    assert (report.resources_from, report.resources_note) == ("log", note)
    assert [(kernel.name, kernel.registers) for kernel in report.resources] == [("spill(float const*, float*, int)", 8)]
    assert report.resources_said.startswith("A claim") and report.resources_said.endswith(note)


def test_more_than_is_read_is_said_to_be_left_out(
    tmp_path: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = "echo ' Function f:'; echo '  REG:7 STACK:0'; yes | head -c 3000000"
    report = with_resources(REPORT, b"\x7fELF", LOG, tmp_path, _stand_in(endless, tmp_path, monkeypatch, sandbox))
    assert (report.resources_from, report.resources_note) == ("binary", "there are more functions than are listed")
    assert [(kernel.name, kernel.registers) for kernel in report.resources] == [("f", 7)]


def _stand_in(script: str, place: Path, monkeypatch: pytest.MonkeyPatch, sandbox: Sandbox) -> Sandbox:
    tool = place / "cuobjdump"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setattr(binary, "cuobjdump", lambda: Compiler(tool, "stand-in"))
    return sandbox


def test_what_a_source_prints_is_not_what_its_binary_uses(
    compiled: Callable[..., Build], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without cuobjdump it is, and the report says so; with it, another build is made that does not believe it."""
    _needs("nvcc")
    name = "_Z5scaleILi128EEvPKffibPfl"
    source = KERNEL_CU + "".join(f'#pragma message "{CLAIM.format(name=each)}"\n' for each in ("_Z4fastv", name))
    real = toolchain.find_tool

    def without(tool: str) -> Path:
        if tool == "cuobjdump":
            raise ToolMissing(tool, "the package", "it reads")
        return real(tool)

    with monkeypatch.context() as patch:
        patch.setattr(toolchain, "find_tool", without)
        believed = compiled(source, Language.CUDA).report
    assert believed.ok and "fast()" in {kernel.name for kernel in believed.resources}, believed.log
    assert believed.resources_from == "log" and "cuobjdump is not on PATH" in believed.resources_note

    _needs("cuobjdump")
    report = compiled(source, Language.CUDA).report
    assert not report.cached and (report.resources_from, report.resources_note) == ("binary", "")
    (scale,) = report.resources
    assert scale.name.startswith("void scale<128>(") and scale.arch == "sm_90a" and scale.shared_bytes == 512
    assert scale.registers != 8 and scale.constant_bytes > 0
    assert compiled(source, Language.CUDA).report.resources == report.resources


def _needs(tool: str) -> None:
    try:
        find_tool(tool)
    except ToolMissing as error:
        pytest.skip(str(error))
