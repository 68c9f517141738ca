"""What a candidate's processes have mapped, as the judge reads it, and what each language allows of it."""

from __future__ import annotations

import mmap
import os
import subprocess
import time
from pathlib import Path

import pytest

from agentcore.judge.libraries import LibraryRules, mapped_files, named
from agentcore.vocabulary import CheckName, CheckStatus, Language, Verdict
from tests.judge.conftest import DOUBLE_KERNEL, Bench, failing, whole_kernel, workload

SYSTEM, PACKAGES = "/usr/lib/x86_64-linux-gnu", "/opt/venv/lib/python3.12/site-packages"
ARTIFACT = Path("/cache/builds/done/ab/abc/kernel.so")

SMUGGLE = r"""
extern "C" int ky_call(void* const*, void*);
#include <dlfcn.h>
#include <sys/mman.h>
#include <fstream>
#include <iterator>
#include <string>
static bool smuggle(const std::string& name) {
    Dl_info info;
    dladdr(reinterpret_cast<void*>(&ky_call), &info);
    std::ifstream file(info.dli_fname, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    const int copy = memfd_create(name.c_str(), 0);
    if (write(copy, bytes.data(), bytes.size()) < 0) return false;
    return dlopen(("/proc/self/fd/" + std::to_string(copy)).c_str(), RTLD_NOW);
}
"""
"""Loads a copy of the kernel itself out of memory, under a name it chooses."""


def test_mapped_files_are_read_from_the_kernel_with_their_permission_to_run(tmp_path: Path) -> None:
    data = tmp_path / "some data\n.so (deleted)"
    data.write_bytes(bytes(mmap.PAGESIZE))
    with data.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ):
        seen = mapped_files([os.getpid()])
    (libc,) = (path for path in seen if Path(path).name == "libc.so.6")
    assert seen[libc] is True
    assert seen[str(tmp_path / "some data\\012.so")] is False
    assert not any(path.startswith("[") for path in seen)


def test_a_process_that_is_gone_has_nothing_mapped() -> None:
    done = subprocess.Popen(["/bin/true"])
    done.wait()
    assert mapped_files([done.pid]) == {}


def test_a_look_is_quick() -> None:
    # Far above what a compiled kernel's runner has mapped; the point is that a look costs no more than a slow call.
    begun = time.process_time()
    for _ in range(20):
        mapped_files([os.getpid()])
    assert (time.process_time() - begun) / 20 < 0.05


@pytest.mark.parametrize(
    ("language", "path", "executable", "allowed"),
    [
        (Language.CPP, f"{SYSTEM}/libm.so.6", True, True),
        (Language.CPP, f"{SYSTEM}/libmvec.so.1", True, True),
        (Language.CPP, f"{SYSTEM}/libstdc++.so.6.0.30", True, True),
        (Language.CPP, f"{SYSTEM}/libgomp.so.1.0.0", True, True),
        (Language.CPP, f"{SYSTEM}/gconv/gconv-modules.cache", False, True),
        (Language.CPP, "/usr/lib/locale/C.utf8/LC_CTYPE", False, True),
        (Language.CPP, "/memfd:inputs", False, True),
        (Language.CPP, f"{SYSTEM}/libopenblas.so.0", True, False),
        (Language.CPP, f"{SYSTEM}/libopenblas.so.0", False, False),  # mapped to be copied by a loader of its own
        (Language.CPP, f"{SYSTEM}/libcrypto.so.3", True, False),
        (Language.CPP, f"{PACKAGES}/torch/lib/libtorch_cpu.so", True, False),
        (Language.CPP, "/usr/bin/dash", True, False),
        (Language.CPP, "/tmp/libm.so.6", True, False),  # where a candidate can write, a name says nothing
        (Language.CPP, "/dev/shm/libm.so.6", True, False),
        (Language.CPP, "/memfd:libm.so.6", True, False),
        (Language.CPP, "/tmp/weights.bin", False, True),
        (Language.CUDA, f"{SYSTEM}/libcuda.so.580.95.05", True, True),
        (Language.CUDA, f"{SYSTEM}/libnvidia-ptxjitcompiler.so.580.95.05", True, True),
        (Language.CUDA, "/usr/local/cuda-13.0/targets/x86_64-linux/lib/libcudart.so.13.0.48", True, True),
        (Language.CUDA, "/usr/local/cuda-13.0/lib64/libnvrtc-builtins.so.13.0", True, True),
        (Language.CUDA, "/dev/nvidia0", False, True),
        (Language.CUDA, "/usr/local/cuda-13.0/targets/x86_64-linux/lib/libcublasLt.so.13.1.0", True, False),
        (Language.CUDA, f"{PACKAGES}/nvidia/cudnn/lib/libcudnn_graph.so.9", True, False),
        (Language.CUDA, f"{PACKAGES}/torch/lib/libtorch_cuda.so", True, False),
        (Language.TRITON, f"{PACKAGES}/torch/lib/libtorch_cuda.so", True, True),  # torch is there anyway
        (Language.TRITON, f"{PACKAGES}/triton/_C/libtriton.so", True, True),
        (Language.TRITON, f"{PACKAGES}/flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so", True, False),
        (Language.CUTE, f"{PACKAGES}/flashinfer/_build/x.so", True, False),
        (Language.CUTE, f"{PACKAGES}/nvidia_cutlass_dsl/lib/libcute_dsl_runtime.so", True, True),
        (Language.CUTE, "/home/apex/venv/lib/python3.12/lib-dynload/math.so", True, True),
        (Language.TORCH, f"{PACKAGES}/flashinfer/_build/x.so", True, True),  # calling libraries is its business
    ],
)
def test_what_each_language_may_have_mapped(language: Language, path: str, executable: bool, allowed: bool) -> None:
    found = LibraryRules(language, ARTIFACT, []).foreign({path: executable})
    assert bool(found) is not allowed
    assert all(each.startswith(path) for each in found)


def test_what_the_runner_had_before_and_the_kernel_itself_are_its_own() -> None:
    python = "/usr/bin/python3.12"
    rules = LibraryRules(Language.CPP, ARTIFACT, [python])
    assert rules.foreign({python: True, str(ARTIFACT): True}) == []
    assert rules.foreign({"/usr/bin/python3.11": True, "/elsewhere/kernel.so": True}) == [
        "/elsewhere/kernel.so", "/usr/bin/python3.11",
    ]


def test_the_message_names_libraries_and_products_in_bounds() -> None:
    found = LibraryRules(Language.CPP, ARTIFACT, []).foreign(
        {f"/a/lib{'x' * 5000}{index}.so": True for index in range(50)} | {"/a/libcublas.so.13": True}
    )
    assert "/a/libcublas.so.13 (cuBLAS)" in found
    said = named(found, Language.CPP)
    assert "and 46 more" in said and len(said) < 1500


def test_a_library_brought_in_from_memory_is_a_hack_and_is_named(bench: Bench) -> None:
    problem = bench.problem()
    body = 'static bool done = smuggle("libm.so.6"); if (!done) return 7;' + DOUBLE_KERNEL
    source = whole_kernel(body, problem).replace("extern", SMUGGLE + "extern", 1)
    result = bench.judge_kernel(source, problem)
    assert result.verdict is Verdict.REWARD_HACK and CheckName.LANGUAGE_RULES in failing(result)
    assert "the kernel brought in /memfd:libm.so.6; a cpp kernel may use only the toolchain's own" in result.message


def test_a_name_made_up_once_held_out_shapes_are_known_stays_unsaid(bench: Bench) -> None:
    problem = bench.problem(workloads=[workload()], heldout=[workload("h0", {"n": 4321})])
    body = 'if (n == 4321 && !smuggle("secret-4321")) return 7;' + DOUBLE_KERNEL
    source = whole_kernel(body, problem).replace("extern", SMUGGLE + "extern", 1)
    result = bench.judge_kernel(source, problem)
    assert result.verdict is Verdict.REWARD_HACK and failing(result) == {CheckName.LANGUAGE_RULES}
    assert result.message == "on a held-out shape" and "4321" not in result.model_dump_json()


def test_an_honest_kernel_passes_the_rule(bench: Bench) -> None:
    problem = bench.problem()
    body = 'static void* m = dlopen("libm.so.6", RTLD_NOW); if (!m) return 7;' + DOUBLE_KERNEL
    result = bench.judge_kernel("#include <dlfcn.h>\n" + whole_kernel(body, problem), problem)
    assert result.passed, result.message
    (rule,) = [check for check in result.checks if check.name is CheckName.LANGUAGE_RULES]
    assert rule.status is CheckStatus.PASS
