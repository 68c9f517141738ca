"""Real compilers on honest and broken sources: reports, CUDA resources, tools that are missing."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess

import pytest

from agentcore.build import ToolMissing, cute, missing_tools, toolchain
from agentcore.build.resources import parse_ptxas
from agentcore.sandbox import find_sandbox
from agentcore.vocabulary import HardwareName, Language
from tests.build.kernels import KERNEL_CPP, KERNEL_CU

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")


# -- reports


def test_a_report_says_how_it_was_built(compiled):
    built = compiled(KERNEL_CPP)
    report = built.report
    assert report.ok and built.artifact.stat().st_size < 100_000
    assert report.compiler.startswith("g++") and "-march=native" in report.flags and report.arch == "native"
    assert len(report.key) == 64 and report.sandbox == find_sandbox().kind and not report.cached
    assert report.seconds > 0 and report.log == ""


def test_the_artefact_and_its_parents_are_readable_to_the_runners_user(compiled):
    previous = os.umask(0o077)
    try:
        artifact = compiled(KERNEL_CPP).artifact
    finally:
        os.umask(previous)
    assert artifact.stat().st_mode & 0o777 == 0o644
    assert artifact.parent.stat().st_mode & 0o777 == 0o755


def test_an_error_is_told_as_the_compiler_told_it_with_relative_paths(compiled, tmp_path):
    built = compiled('#include "problem.h"\n#include "inner/part.h"\n' + KERNEL_CPP.replace("cells;", "cell;"))
    assert not built.report.ok and built.artifact is None
    assert "kernel.cpp:2:10: fatal error: inner/part.h: No such file" in built.report.log
    built = compiled(KERNEL_CPP.replace("i < cells;", "i < cell;"))
    assert "kernel.cpp:7:29: error: 'cell' was not declared in this scope" in built.report.log
    assert str(tmp_path) not in built.report.log


def test_local_headers_in_directories_are_found(compiled):
    built = compiled(
        {
            "kernel.cpp": '#include "parts/größe.h"\n' + KERNEL_CPP,
            "parts/größe.h": '#include "deeper/one.h"\n',
            "parts/deeper/one.h": "static_assert(ONE == 1, \"order\");\n".replace("ONE", "1"),
        }
    )
    assert built.report.ok, built.report.log


def test_paths_with_spaces_and_other_letters_work(compiled, tmp_path):
    built = compiled(
        KERNEL_CPP, source_dir=tmp_path / "ядро 核", cache_dir=tmp_path / "cache ünï 'quoted' $HOME"
    )
    assert built.report.ok, built.report.log


def test_a_copy_of_problem_h_in_the_tree_is_overruled(compiled):
    built = compiled({"kernel.cpp": KERNEL_CPP, "problem.h": "#error an old copy\n"})
    assert built.report.ok, built.report.log


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ('#include "problem.h"\n', "undefined reference to `kernel_launch'"),
        (KERNEL_CPP.replace("float gain", "double gain"), "conflicting declaration of C function"),
        (KERNEL_CPP.replace('#include "problem.h"', "").replace("float* y", "double* y"), "conflicting declaration"),
        (KERNEL_CPP + 'extern "C" int ky_call(void* const*, void*) { return 0; }', "multiple definition of `ky_call'"),
        (KERNEL_CPP.replace("return 0;", "extern int absent(); return absent();"), "undefined reference to `absent"),
    ],
    ids=["no kernel", "wrong type", "wrong type and no header", "its own ky_call", "unresolved symbol"],
)
def test_a_wrong_interface_is_a_compile_error(compiled, source, said):
    built = compiled(source)
    assert not built.report.ok
    assert said in built.report.log


def test_a_missing_source_is_named(compiled):
    built = compiled({"other.cpp": "int x;"})
    assert not built.report.ok
    assert "kernel.cpp is missing" in built.report.log and "other.cpp" in built.report.log


def test_links_special_files_and_large_trees_are_refused(compiled, tmp_path):
    def refused(prepare) -> str:
        directory = tmp_path / f"kernel-{prepare.__name__}"
        directory.mkdir()
        prepare(directory)
        built = compiled(KERNEL_CPP, source_dir=directory)
        assert not built.report.ok
        return built.report.log

    def header_as_directory(directory):
        (directory / "kernel.cpp").write_text(KERNEL_CPP)
        (directory / "problem.h").mkdir()
        (directory / "problem.h" / "a.h").write_text("")

    def link(directory):
        (directory / "notes.h").symlink_to("/etc/passwd")

    def linked_directory(directory):
        (directory / "etc").symlink_to("/etc")

    def pipe(directory):
        os.mkfifo(directory / "notes.h")

    def many(directory):
        for number in range(100):
            (directory / f"{number}.h").touch()

    def large(directory):
        (directory / "data.h").write_bytes(b"/" * (2 << 20))

    def deep(directory):
        (directory / "/".join("abcdefghijkl")).mkdir(parents=True)

    assert "notes.h: not a regular file" in refused(link)
    assert "etc: not a regular file" in refused(linked_directory)
    assert "notes.h: not a regular file" in refused(pipe)
    assert "more than 64 files" in refused(many)
    assert "data.h: larger than 1 MiB" in refused(large)
    assert "directories deep" in refused(deep)
    assert "problem.h/: problem.h is the generated header" in refused(header_as_directory)


def test_a_language_is_built_only_for_its_hardware(compiled):
    with pytest.raises(ValueError, match="cpp kernels are not compiled for h200"):
        compiled(KERNEL_CPP, Language.CPP, HardwareName.H200)


def test_a_syntax_error_in_python_is_told_and_nothing_is_run(compiled):
    good = compiled("import torch\nraise SystemExit(3)\n", Language.TORCH, HardwareName.H200)
    assert good.report.ok and good.artifact is None
    bad = compiled("def run(:\n", Language.TRITON, HardwareName.H200)
    assert not bad.report.ok
    assert 'File "kernel.py", line 1' in bad.report.log and "SyntaxError" in bad.report.log
    deep = compiled("(" * 100_000, Language.TORCH, HardwareName.H200)
    assert not deep.report.ok and deep.report.log


# -- CUDA


@needs_nvcc
@pytest.mark.parametrize(
    ("hardware", "arch"), [(HardwareName.H200, "sm_90a"), (HardwareName.H100, "sm_90a"), (HardwareName.B200, "sm_100a")]
)
def test_cuda_is_compiled_for_the_hardware_with_a_resource_report(compiled, shared_cache, hardware, arch):
    built = compiled(KERNEL_CU, Language.CUDA, hardware, cache_dir=shared_cache)
    assert built.report.ok, built.report.log
    assert built.report.arch == arch and arch.encode() in built.artifact.read_bytes()
    assert "cuda_13" in built.report.compiler and "with g++" in built.report.compiler
    (kernel,) = built.report.resources
    assert kernel.name.startswith("void scale<128>(float const*")
    assert kernel.arch == arch
    assert 8 <= kernel.registers <= 64
    assert kernel.shared_bytes == 512 and kernel.barriers == 1
    assert kernel.spill_store_bytes == kernel.spill_load_bytes == 0
    again = compiled(KERNEL_CU, Language.CUDA, hardware, cache_dir=shared_cache)
    assert again.report.cached and again.report.resources == built.report.resources


@needs_nvcc
def test_the_cuda_artefact_needs_nothing_of_the_toolkit(compiled, shared_cache):
    artifact = compiled(KERNEL_CU, Language.CUDA, cache_dir=shared_cache).artifact
    needed = subprocess.run(["readelf", "-d", artifact], capture_output=True, text=True, check=True).stdout
    assert "libcudart" not in needed
    ctypes.CDLL(str(artifact))  # every symbol resolves on a host without a GPU


@needs_nvcc
def test_spills_are_reported(compiled):
    source = KERNEL_CU.replace(
        "__global__ void scale",
        "__global__ void __maxnreg__(24) scale",
    ).replace(
        "    if (i < cells) y[i] = ",
        "    float v[48];\n#pragma unroll\n    for (int k = 0; k < 48; ++k) v[k] = x[i + 7 * k];\n"
        "    __syncthreads();\n"
        "    float s = 0;\n#pragma unroll\n    for (int k = 0; k < 48; ++k) s += v[k] * v[47 - k] * x[k];\n"
        "    if (i < cells) y[i] = s + ",
    )
    built = compiled(source, Language.CUDA)
    assert built.report.ok, built.report.log
    (kernel,) = built.report.resources
    assert kernel.registers == 24
    assert kernel.spill_store_bytes > 0 and kernel.spill_load_bytes > 0 and kernel.stack_bytes > 0


@needs_nvcc
def test_cuda_errors_name_file_and_line(compiled, tmp_path):
    built = compiled(KERNEL_CU.replace("threadIdx.x ^ 1", "threadIdx.q"), Language.CUDA)
    assert not built.report.ok
    assert 'kernel.cu(10): error: class "uint3" has no member "q"' in built.report.log
    assert str(tmp_path) not in built.report.log
    built = compiled(KERNEL_CU.replace("staged[Threads]", "staged[Threads * 1024]"), Language.CUDA)
    assert not built.report.ok
    assert "uses too much shared data" in built.report.log


@needs_nvcc
@pytest.mark.parametrize("line", ['#include "/etc/passwd"', 'asm(".incbin \\"/etc/passwd\\"");'])
def test_files_of_the_host_cannot_be_read_by_nvcc(compiled, line):
    built = compiled(line + "\n" + KERNEL_CU, Language.CUDA)
    assert not built.report.ok
    assert "root:" not in built.report.log and b"root:x" not in built.report.log.encode()


@needs_nvcc
def test_inline_ptx_of_the_architecture_is_assembled(compiled):
    tcgen = 'asm volatile("tcgen05.wait::ld.sync.aligned;");'
    source = KERNEL_CU.replace("    __syncthreads();", f"    __syncthreads(); {tcgen}")
    assert compiled(source, Language.CUDA, HardwareName.B200).report.ok
    assert not compiled(source, Language.CUDA, HardwareName.H200).report.ok


PTXAS = """\
ptxas info    : 16 bytes gmem, 24 bytes cmem[4]
ptxas info    : Compiling entry function '_Z1aPf' for 'sm_90a'
ptxas info    : Function properties for _Z1aPf
    520 bytes stack frame, 516 bytes spill stores, 1020 bytes spill loads
ptxas info    : Used 255 registers, used 16 barriers, 520 bytes cumulative stack size, 49152 bytes smem, \
360 bytes cmem[0], 8 bytes cmem[2]
ptxas info    : Compile time = 10.2 ms
ptxas info    : Function properties for _Z6helperf
    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Compiling entry function '_Z1bPf' for 'sm_90a'
ptxas info    : Function properties for _Z1bPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers
"""


def test_ptxas_reports_are_read_kernel_by_kernel():
    a, b = parse_ptxas(PTXAS)
    assert (a.name, a.registers, a.barriers, a.shared_bytes, a.constant_bytes) == ("_Z1aPf", 255, 16, 49152, 368)
    assert (a.stack_bytes, a.spill_store_bytes, a.spill_load_bytes) == (520, 516, 1020)
    assert (b.name, b.registers, b.shared_bytes, b.stack_bytes) == ("_Z1bPf", 10, 0, 0)


def test_numbers_that_a_source_printed_among_them_stop_no_build():
    endless = "9" * 5000
    for number in ("255 reg", "16 bar", "520 bytes cum", "49152 bytes s", "516 bytes spill st"):
        _, space, rest = number.partition(" ")
        (a, b) = parse_ptxas(PTXAS.replace(number, f"{endless}{space}{rest}", 1))
        assert (a.name, b.registers) == ("_Z1aPf", 10)
    printed = f"launched with {endless} bytes of dynamic shared memory: _Z1bPf\n"
    assert cute._resources(PTXAS + printed) == parse_ptxas(PTXAS)


# -- tools


def test_a_missing_compiler_is_named_with_its_package(compiled, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(toolchain, "cuda_toolkit", lambda: None)
    with pytest.raises(ToolMissing, match=r"g\+\+ is not on PATH .*install the Debian package g\+\+"):
        compiled(KERNEL_CPP)
    absent = {tool: package for tool, package, _ in missing_tools(cuda=True)}
    assert absent["git"] == "the Debian package git"
    assert absent["setpriv"] == "the Debian package util-linux"
    assert "cuda-toolkit" in absent["nvcc"]


def test_cuda_without_nvcc_says_what_to_install(compiled, monkeypatch, tmp_path):
    (tmp_path / "g++").symlink_to(shutil.which("g++"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(toolchain, "cuda_toolkit", lambda: None)
    with pytest.raises(ToolMissing, match=r"nvcc is not on PATH .*cuda-toolkit"):
        compiled(KERNEL_CU, Language.CUDA)


def test_nothing_is_missing_on_a_complete_host():
    if shutil.which("bwrap") is None or shutil.which("nvcc") is None:
        pytest.skip("this host is not complete")
    assert missing_tools(cuda=True) == []
