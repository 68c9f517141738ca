"""The GPU target on a real device: an honest kernel, and the few failures that only a device can show.

The corpus of GPU cheats is in tests/hacks.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from agentcore.judge.evaluate import EvaluationRequest, Judge
from agentcore.judge.result import EvaluationResult
from agentcore.problems import Problem, load_problem
from agentcore.sandbox import find_sandbox
from agentcore.vocabulary import CheckName, CheckStatus, Language, Verdict
from tests.judge.conftest import DOUBLE, Bench, failing, workload, write_kernel

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).resolve().parents[2]
HONEST = """
#include "problem.h"
__global__ void twice(const float* x, float* y, int64_t n) {
    const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    if (i < n) { BODY; y[i] = 2.0f * x[i]; }
}
extern "C" int kernel_launch(const float* x, float* y, int64_t n, cudaStream_t stream) {
    if (n) twice<<<unsigned((n + 255) / 256), 256, 0, stream>>>(x, y, n);
    AFTER;
    return cudaGetLastError() != cudaSuccess;
}
"""


def kernel(body: str = "", after: str = "") -> str:
    return HONEST.replace("BODY;", body).replace("AFTER;", after)


def judged(
    judge: Judge, problem: Problem, kernel_dir: Path, language: Language = Language.CUDA, **options: object
) -> EvaluationResult:
    return judge.evaluate(EvaluationRequest(**{  # type: ignore[arg-type]
        "problem": problem, "kernel_dir": kernel_dir, "language": language, "hardware": judge.hardware,
        "cache_dir": judge.cache_dir, "quick": True, **options,
    }))


@pytest.fixture
def bench(tmp_path: Path, gpu_judge: Judge) -> Bench:
    tmp_path.chmod(0o755)
    return Bench(tmp_path, gpu_judge)


def of(bench: Bench, source: str, n: int = 1 << 20, **options: object) -> EvaluationResult:
    """The result for a CUDA source on y = 2x."""
    directory = write_kernel(bench.root / f"kernel{abs(hash(source))}", source, Language.CUDA)
    return judged(bench.judge, bench.problem(DOUBLE, [workload(axes={"n": n})]), directory, **options)


def used_bytes() -> int:
    import torch

    free, total = torch.cuda.mem_get_info()
    return total - free


def test_the_suites_rmsnorm_passes_with_a_gated_time_above_the_bound(gpu_judge: Judge) -> None:
    problem = load_problem(ROOT / "problems" / "rmsnorm_h4096")
    result = judged(gpu_judge, problem, ROOT / "kernels_repo/kernels/rmsnorm_h4096/cuda")
    assert result.verdict is Verdict.PASSED, result.message
    for w in result.workloads:
        assert w.timing_method == "gated" and w.latency_us is not None
        if not w.heldout:
            assert w.bound is not None and w.latency_us > w.bound.t_sol_us
        assert {c.name for c in w.checks if c.status is CheckStatus.PASS} >= {
            CheckName.INPUTS_INTACT, CheckName.GUARDS_INTACT, CheckName.OUTPUTS_WRITTEN, CheckName.COMPLETE_ON_TIME,
            CheckName.STEADY_WORK, CheckName.CLOCK_AGREES, CheckName.QUIET_DEVICE,
        }
    assert result.stamp.device_uuid.startswith("GPU-") and result.stamp.driver and result.stamp.sm_clock_mhz


@pytest.mark.parametrize("n", [0, 1, 255, 100_003])
def test_sizes_down_to_nothing_pass(bench: Bench, n: int) -> None:
    result = of(bench, kernel(), n)
    assert result.verdict is Verdict.PASSED, result.message


def test_an_empty_output_beside_others_and_single_values_pass(bench: Bench) -> None:
    definition = {
        **DOUBLE, "axes": {"n": {"type": "var"}, "none": {"type": "var"}},
        "outputs": {
            "empty": {"shape": ["none", 4], "dtype": "float32"}, "y": {"shape": ["n"], "dtype": "float32"},
            "positive": {"shape": ["n"], "dtype": "bool"}, "first": {"shape": [], "dtype": "float32"},
        },
        "reference": "def run(x):\n    return x.new_empty(0, 4), x * 2, x > 0, x[0].clone()\n",
    }
    source = """
#include "problem.h"
__global__ void all(const float* x, float* y, bool* positive, float* first, int64_t n) {
    const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    if (i < n) { y[i] = 2.0f * x[i]; positive[i] = x[i] > 0; }
    if (i == 0) *first = x[0];
}
extern "C" int kernel_launch(const float* x, float* empty, float* y, bool* positive, float* first, int64_t n,
                             int64_t none, cudaStream_t stream) {
    all<<<unsigned((n + 255) / 256), 256, 0, stream>>>(x, y, positive, first, n);
    return cudaGetLastError() != cudaSuccess;
}
"""
    problem = bench.problem(definition, [workload(axes={"n": 100_003, "none": 0})])
    result = judged(bench.judge, problem, write_kernel(bench.root / "all", source, Language.CUDA))
    assert result.verdict is Verdict.PASSED, result.message


def test_a_write_to_an_input_is_refused_by_the_hardware_and_called_what_it_is(bench: Bench) -> None:
    result = of(bench, kernel("((float*)x)[i] = 0;"))
    assert result.verdict is Verdict.REWARD_HACK and CheckName.INPUTS_INTACT in failing(result)


def test_a_kernel_that_waits_for_the_device_is_timed_one_call_at_a_time_and_says_so(bench: Bench) -> None:
    result = of(bench, kernel(after="cudaStreamSynchronize(stream);"))
    assert result.verdict is Verdict.PASSED, result.message
    (w,) = result.workloads
    assert w.timing_method == "wall" and w.latency_us is not None and w.latency_us > 0
    steady = next(c for c in w.checks if c.name is CheckName.STEADY_WORK)
    assert steady.status is CheckStatus.SKIP and "one call at a time" in steady.message


def test_a_hung_kernel_times_out_and_frees_the_device_for_the_next(bench: Bench) -> None:
    assert of(bench, kernel()).passed
    before = used_bytes()
    hung = of(bench, kernel("while (*(volatile const float*)x != 12345.0f) {}"))
    assert hung.verdict is Verdict.TIMEOUT and CheckName.IN_TIME in failing(hung)
    assert used_bytes() < before + (64 << 20)
    again = of(bench, kernel("") + "// again\n")
    assert again.verdict is Verdict.PASSED, again.message


def test_a_kernel_that_stays_on_the_gpu_between_calls_is_found(bench: Bench) -> None:
    """One block of it keeps the grid that holds the GPU from filling it."""
    stays = """
    static int calls = 0;
    static cudaStream_t side = nullptr;
    if (!side) cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
    if (++calls == 6) stay<<<1, 32, 0, side>>>(5000000000ull);
    """
    resident = """
__global__ void stay(unsigned long long ns) {
    unsigned long long begun, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begun));
    do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); while (now - begun < ns);
}
extern "C" int kernel_launch("""
    result = of(bench, kernel(after=stays).replace('extern "C" int kernel_launch(', resident))
    assert result.verdict is Verdict.REWARD_HACK and CheckName.STEADY_WORK in failing(result), result.message
    assert of(bench, kernel()).passed


def test_a_turn_of_the_judges_is_over_before_the_cache_is_cleared(gpu_judge: Judge) -> None:
    """What the judge left to do would take the device away from the runner's grid then, or later from a call."""
    from agentcore.judge.cuda_target import CudaTarget

    target = gpu_judge.target
    assert isinstance(target, CudaTarget)
    calibrated = target.calibration(find_sandbox("auto")).after
    clearings = [expected.clearing for expected in calibrated.values()]
    assert max(clearings) - min(clearings) < 10, clearings


def test_the_flush_region_is_summed_alike_by_the_judge_and_on_the_host(gpu_judge: Judge) -> None:
    from agentcore.judge.cuda_target import CudaTarget
    from tests.judge.test_cuda_end_to_end import keyed_sum

    target = gpu_judge.target
    assert isinstance(target, CudaTarget)
    words = target.region.words().cpu().numpy().view(np.uint32)
    keys = [1, 2**64 - 1]
    assert target.region.sums(keys) == [keyed_sum(words, key) for key in keys]


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("size", [32 << 20, 1_000_003], ids=["large", "odd"])
def test_outputs_are_seen_by_the_judges_kernel_as_by_torch(gpu_judge: Judge, dtype: str, size: int) -> None:
    import torch

    from agentcore.judge.cuda_target import CudaTarget
    from tests.judge.test_cuda_glance import TOLERANCES, agree, contents

    assert isinstance(gpu_judge.target, CudaTarget) and gpu_judge.glance is gpu_judge.target.glance
    kind = getattr(torch, dtype)
    for tolerance in TOLERANCES:
        pairs = list(contents(kind, (size << 1) // kind.itemsize, tolerance, "cuda").values())
        agree(gpu_judge.target.glance, pairs, tolerance)
        agree(gpu_judge.target.glance, [(g[1:], w[1:]) for g, w in pairs[-3:]], tolerance)
        agree(gpu_judge.target.glance, [(g[1:], w[:-1]) for g, w in pairs[:3]], tolerance)
        agree(gpu_judge.target.glance, [(g[:5], w[:5]) for _ in range(5) for g, w in pairs], tolerance)
    torch.cuda.empty_cache()


def test_looking_waits_for_the_reference_on_whichever_stream_it_is_worked_out(gpu_judge: Judge) -> None:
    import torch

    from agentcore.judge.cuda_target import CudaTarget
    from agentcore.problems import Tolerance

    assert isinstance(gpu_judge.target, CudaTarget)
    for stream in (torch.cuda.default_stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream):
            got, want = torch.ones(1 << 20, device="cuda"), torch.zeros(1 << 20, device="cuda")
            torch.cuda._sleep(50_000_000)  # type: ignore[no-untyped-call]
            want += 1
            found = gpu_judge.target.glance([got], [want], Tolerance())
            want += 1  # what comes later is not seen
            assert found is not None and found.tolist() == [[0, 0, 0]]


@pytest.mark.quiet
def test_looking_at_large_outputs_takes_one_pass(gpu_judge: Judge) -> None:
    """Of 64 MiB each: twice that is read. Torch moves some thirty times as much."""
    import torch

    from agentcore.judge import correctness
    from agentcore.judge.cuda_target import CudaTarget
    from agentcore.problems import Tolerance

    assert isinstance(gpu_judge.target, CudaTarget)
    glance, tolerance = gpu_judge.target.glance, Tolerance()
    want = torch.randn(32 << 20, device="cuda").bfloat16()
    got = (want.float() * 1.003).bfloat16()

    def took_ms(look: Callable[[], object]) -> float:
        best = float("inf")
        for _ in range(10):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            torch.cuda._sleep(500_000)  # type: ignore[no-untyped-call]
            begin.record()
            look()
            end.record()
            end.synchronize()
            best = min(best, begin.elapsed_time(end))
        return best

    ours = took_ms(lambda: glance([got], [want], tolerance))
    torchs = took_ms(lambda: correctness._glance_rows(got.reshape(1, -1), want.reshape(1, -1), tolerance))
    print(f"ky_glance {ours:.3f} ms, torch {torchs:.3f} ms")
    assert ours < torchs / 8


def test_a_device_error_is_a_runtime_error_and_the_next_is_unharmed(bench: Bench) -> None:
    result = of(bench, kernel("*(volatile int*)nullptr = 1;"))
    assert result.verdict is Verdict.RUNTIME_ERROR, result.message
    assert of(bench, kernel()).passed


def test_a_write_past_an_output_breaks_its_guard(bench: Bench) -> None:
    result = of(bench, kernel("if (i == 0) y[n] = 1.0f;"), n=1000)
    assert result.verdict is Verdict.REWARD_HACK and CheckName.GUARDS_INTACT in failing(result)


def test_elements_never_written_are_counted(bench: Bench) -> None:
    result = of(bench, kernel("if (i == 3) return;"))
    assert result.verdict is Verdict.INCORRECT and CheckName.OUTPUTS_WRITTEN in failing(result)
    assert "1 of 1048576 elements" in result.message
