"""Compile options: what shapes the code passes, what reads, writes, loads or runs something does not."""

from __future__ import annotations

import pytest

from agentcore.official.flags import (
    compiler_flag_faults,
    language_standard,
    linker_flag_faults,
    without_architectures,
)


@pytest.mark.parametrize("flags", [
    ["-O3", "--use_fast_math", "-std=c++17"],
    ["-O2", "-march=native", "-fopenmp", "-ffast-math", "-funroll-loops", "-Wall", "-Wno-unused", "-g"],
    ["-DTILE=64", "-UNDEBUG", "-DNAME", "-D__CUDA_NO_HALF_OPERATORS__"],
    ["-Xptxas", "-O3,-v", "--ptxas-options=-v", "-Xptxas=-dlcm=ca"],
    ["-gencode=arch=compute_90a,code=sm_90a", "-gencode", "arch=compute_100a,code=sm_100a", "-arch=sm_90"],
    ["-maxrregcount=64", "--maxrregcount", "64", "-lineinfo", "--expt-relaxed-constexpr", "--expt-extended-lambda"],
    ["-Xcompiler", "-fopenmp", "-Xcompiler=-O3,-march=native", "--threads=4", "-t", "4"],
])
def test_flags_that_shape_the_code_are_accepted(flags: list[str]) -> None:
    assert compiler_flag_faults(flags) == []


@pytest.mark.parametrize("flag", [
    "-I/etc", "-I.", "-include", "-imacros", "-isystem", "-L/tmp", "-o", "-o/x", "@args", "-B/tmp", "-x", "-wrapper",
    "-fplugin=evil.so", "-fplugin-arg-evil-x=1", "-specs=x", "-save-temps", "-dumpdir", "-fdump-tree-all", "-MD", "-MF",
    "-Wl,-rpath,/tmp", "-Wa,-a", "-Wp,-MD,x", "-fprofile-use=x", "-fuse-ld=evil", "-ccbin=/tmp/x", "--compiler-bindir",
    "-Xcompiler=-fplugin=evil.so", "-Xlinker", "-Xcompiler", "-Xcompiler=-o,x", "--run", "--options-file=x", "-dryrun",
    "-keep", "-DX=a b", "-O3 -o x", "-march=native;touch", "$(id)", "file.o", "", "-", "--", "-ptx", "-shared", "-E",
    "-Xptxas=@x", "-arch=$(id)", "-fmodule-mapper=x", "-maxrregcount", "--default-stream",
])
def test_flags_that_reach_for_files_or_programs_are_refused(flag: str) -> None:
    assert len(compiler_flag_faults([flag])) == 1


@pytest.mark.parametrize(("flags", "faults"), [
    (["-lcuda", "-lcublas", "-lcublasLt", "-lcudnn", "-fopenmp"], 0),
    (["-lssl"], 1), (["-L/tmp"], 1), (["-Wl,--wrap=malloc"], 1), (["-l:evil.so"], 1), (["-lcuda/../evil"], 1),
    (["x.o", "-lm"], 1),
])
def test_only_named_libraries_are_linked(flags: list[str], faults: int) -> None:
    assert len(linker_flag_faults(flags)) == faults


def test_architectures_are_the_judges_to_choose() -> None:
    flags = ["-O3", "-gencode", "arch=compute_80,code=sm_80", "--arch=sm_90", "-arch", "sm_70", "-DX=1"]
    assert without_architectures(flags) == ("-O3", "-DX=1")


@pytest.mark.parametrize(("asked", "used"), [
    ([], "-std=c++20"), (["-std=c++17"], "-std=c++20"), (["-std=gnu++14"], "-std=gnu++20"),
    (["-std=c++23"], "-std=c++23"), (["-std=c++23", "-std=c++17"], "-std=c++20"),
])
def test_the_standard_is_at_least_what_torchs_headers_need(asked: list[str], used: str) -> None:
    assert language_standard(["-O3", *asked, "-DX"]) == (("-O3", "-DX"), used)
