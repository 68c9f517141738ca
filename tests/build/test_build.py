"""Real compilers on honest and broken sources: reports, logs, cache, CUDA resources."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from agentcore.build import BuildCache, CacheError, ToolMissing, cute, missing_tools, toolchain
from agentcore.build import compile as compile_module
from agentcore.build.log import LOG_BYTES, clean_log
from agentcore.build.recipe import recipe
from agentcore.build.resources import parse_ptxas
from agentcore.sandbox import GIB, find_sandbox, memory_mechanism
from agentcore.vocabulary import HardwareName, Language
from tests.build.kernels import DEFINITION, KERNEL_CPP, KERNEL_CU, build_once, problem_of

ROOT = Path(compile_module.__file__).parents[2]
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")


def limited(monkeypatch, **changes):
    """Tighten the limits of every recipe for one test."""

    def tightened(language, hardware):
        made = recipe(language, hardware)
        return dataclasses.replace(made, limits=dataclasses.replace(made.limits, **changes))

    monkeypatch.setattr(compile_module, "recipe", tightened)


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


# -- hostile sources


@pytest.mark.parametrize(
    "line",
    [
        '#include "/etc/passwd"',
        '#include "/etc/shadow"',
        '#include "{checkout}/pyproject.toml"',
        '#include "../../../../../../../../etc/passwd"',
        '#include "../../secret.h"',
        '#include "{secret}"',
        'asm(".incbin \\"/etc/passwd\\"");',
        'asm(".incbin \\"{secret}\\"");',
        'asm(".include \\"{secret}\\"");',
    ],
)
def test_files_of_the_host_cannot_be_read_while_compiling(compiled, tmp_path, line):
    secret = tmp_path / "secret.h"
    secret.write_text("a_token_of_the_host\n")
    secret.chmod(0o644)
    line = line.replace("{secret}", str(secret)).replace("{checkout}", str(ROOT))
    built = compiled(line + "\n" + KERNEL_CPP)
    assert not built.report.ok
    assert any(words in built.report.log for words in ("No such file", "can't open", "file not found"))
    assert "a_token_of_the_host" not in built.report.log and "root:" not in built.report.log


def test_the_compilers_environment_holds_no_secrets(compiled, monkeypatch):
    monkeypatch.setenv("SECRET_KEY", "hunter2")
    for line in ('#include "/proc/self/environ"', 'asm(".incbin \\"/proc/self/environ\\"");'):
        built = compiled(line + "\n" + KERNEL_CPP)
        assert "hunter2" not in built.report.log
        assert built.artifact is None or b"hunter2" not in built.artifact.read_bytes()


def test_a_compile_without_end_is_stopped(compiled, monkeypatch):
    limited(monkeypatch, wall_s=1.5)
    source = """
template <int N> struct T { using L = typename T<N * 2>::X; using R = typename T<N * 2 + 1>::X; using X = int; };
template <int A, int B> struct U { static constexpr int v = U<A - 1, B>::v + U<A - 1, B + (1 << A)>::v; };
template <int B> struct U<0, B> { static constexpr int v = B & 1; };
static_assert(U<28, 0>::v >= 0);
"""
    began = time.monotonic()
    built = compiled(source + KERNEL_CPP)
    assert time.monotonic() - began < 6
    assert built.timed_out and not built.report.ok
    assert built.report.log.startswith("the compiler was stopped after 2 s")


@pytest.mark.parametrize("limits", [{"address_bytes": GIB // 4}, {"memory_bytes": GIB // 4, "address_bytes": None}])
def test_memory_for_compiling_is_bounded(compiled, monkeypatch, limits):
    limited(monkeypatch, **limits)
    source = """
template <int A, int B> struct U { static constexpr int v = U<A - 1, B>::v + U<A - 1, B + (1 << A)>::v; };
template <int B> struct U<0, B> { static constexpr int v = B & 1; };
static_assert(U<22, 0>::v >= 0);
"""
    built = compiled(source + KERNEL_CPP)
    assert not built.report.ok and not built.timed_out
    assert "memory" in built.report.log.lower()
    if "memory_bytes" in limits:
        assert built.report.log.startswith("error: the compiler ran out of memory: ")
    assert built.report.memory_limit == memory_mechanism()[0]


def test_a_compiler_can_write_its_artefact_and_nothing_beside_it(compiled, monkeypatch):
    """A plugin or a response file that had the compiler write elsewhere would fill the host's disk."""
    actual = recipe(Language.CPP, HardwareName.CPU)
    flags = (*actual.flags, "-save-temps=obj", "-dumpdir", "../out/")
    monkeypatch.setattr(compile_module, "recipe", lambda *_: dataclasses.replace(actual, flags=flags))
    built = compiled(KERNEL_CPP)
    assert not built.report.ok
    assert any(words in built.report.log for words in ("Permission denied", "Read-only file system"))


def test_an_enormous_artefact_is_refused(compiled):
    built = compiled(KERNEL_CPP + "\n__attribute__((used)) char ballast[100 << 20] = {1};\n")
    assert not built.report.ok and built.artifact is None
    assert "bytes; at most" in built.report.log


def test_megabytes_of_messages_keep_their_head_and_tail(compiled):
    lines = "".join(f"#warning message number {number} {'x' * 200}\n" for number in range(3000))
    built = compiled(f"#warning the first\n{lines}#error the last\n")
    assert not built.report.ok
    assert built.report.log_truncated and len(built.report.log) < LOG_BYTES + 200
    assert "the first" in built.report.log and "the last" in built.report.log
    assert "left out" in built.report.log


def test_control_characters_in_messages_are_removed(compiled):
    built = compiled('#error \x1b[31mred\x1b[0m \x1b]0;title\x07 \x08\u202eturned\nint x = "\x1b[2J";\n')
    assert not built.report.ok
    assert "red" in built.report.log and "turned" in built.report.log
    assert not [c for c in built.report.log if (ord(c) < 32 and c not in "\n\t") or c in "\x7f\u202e"]


def test_clean_log_keeps_text_and_drops_what_moves_the_cursor():
    raw = b"a\x1b[1;31mb\x1b[0m\r\nc\x1b]8;;http://x\x1b\\d\xff\x00\x07\te\r"
    assert clean_log(raw) == "ab\ncd\ufffd\te"


# -- cache


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


# -- CUDA


@needs_nvcc
@pytest.mark.parametrize(
    ("hardware", "arch"), [(HardwareName.H200, "sm_90a"), (HardwareName.H100, "sm_90a"), (HardwareName.B200, "sm_100a")]
)
def test_cuda_is_compiled_for_the_hardware_with_a_resource_report(compiled, hardware, arch):
    built = compiled(KERNEL_CU, Language.CUDA, hardware)
    assert built.report.ok, built.report.log
    assert built.report.arch == arch and arch.encode() in built.artifact.read_bytes()
    assert "cuda_13" in built.report.compiler and "with g++" in built.report.compiler
    (kernel,) = built.report.resources
    assert kernel.name.startswith("void scale<128>(float const*")
    assert kernel.arch == arch
    assert 8 <= kernel.registers <= 64
    assert kernel.shared_bytes == 512 and kernel.barriers == 1
    assert kernel.spill_store_bytes == kernel.spill_load_bytes == 0
    again = compiled(KERNEL_CU, Language.CUDA, hardware)
    assert again.report.cached and again.report.resources == built.report.resources


@needs_nvcc
def test_the_cuda_artefact_needs_nothing_of_the_toolkit(compiled):
    artifact = compiled(KERNEL_CU, Language.CUDA).artifact
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
