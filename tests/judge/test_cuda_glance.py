"""The kernel that looks at outputs, compiled for the host, says what torch works out: to the last bit."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from agentcore.judge import correctness, cuda_glance
from agentcore.judge.correctness import compare_all
from agentcore.judge.cuda_glance import CudaGlance
from agentcore.judge.measurement import Measurement, Verifier
from agentcore.problems import Tolerance, load_problem
from agentcore.problems.tensors import InputFactory
from tests.judge.conftest import DOUBLE, workload, write_problem
from tests.judge.fake_libcuda import driver_of

INF, NAN = math.inf, math.nan
DENORMAL = 1e-41
AWKWARD = [0.0, -0.0, 1.0, -1.0, 1.0078125, 3e38, -3e38, 1e-6, 9e-7, DENORMAL, -DENORMAL, 1.5e-45, INF, -INF, NAN, -NAN]
FLOATS = [torch.bfloat16, torch.float32]
TOLERANCES = [
    Tolerance(max_atol=0, max_rtol=0), Tolerance(), Tolerance(max_atol=0, max_rtol=0.1),
    Tolerance(max_atol=0.1, max_rtol=0), Tolerance(max_atol=1e-7, max_rtol=1.3e-6),
    Tolerance(max_atol=5e-42, max_rtol=0), Tolerance(max_atol=1e300, max_rtol=1e300),
]
Pair = tuple[torch.Tensor, torch.Tensor]


class HostGlance(CudaGlance):
    """Over the fake libcuda, for tensors in host memory."""

    device = "cpu"

    def __init__(self, fake_libcuda: Path) -> None:
        super().__init__(driver_of(fake_libcuda), b"not read by the fake", multiprocessors=1)

    def stream(self) -> int:
        return 0


@pytest.fixture(scope="module")
def glance(fake_libcuda: Path) -> CudaGlance:
    return HostGlance(fake_libcuda)


def alike(found: torch.Tensor, expected: torch.Tensor) -> bool:
    """Equal in every bit, one NaN being as good as another."""
    same = (found == expected) | (found.isnan() & expected.isnan())
    return found.shape == expected.shape and found.dtype == expected.dtype and bool(same.all())


def by_torch(pairs: Sequence[Pair], tolerance: Tolerance) -> torch.Tensor:
    return torch.cat([correctness._glance_rows(g.reshape(1, -1), w.reshape(1, -1), tolerance) for g, w in pairs])


def agree(glance: CudaGlance, pairs: Sequence[Pair], tolerance: Tolerance) -> None:
    found = glance([g for g, _ in pairs], [w for _, w in pairs], tolerance)
    assert found is not None
    expected = by_torch(pairs, tolerance)
    assert alike(found, expected), (tolerance, found, expected)


def on_the_edge(want: torch.Tensor, tolerance: Tolerance) -> torch.Tensor:
    """As far off as is allowed: what is rounded otherwise on the way is on the other side for some elements."""
    wide = want.float()
    return (wide + (wide.abs() * tolerance.max_rtol + tolerance.max_atol)).to(want.dtype)


def contents(dtype: torch.dtype, size: int, tolerance: Tolerance, device: str = "cpu") -> dict[str, Pair]:
    """Pairs of ``size`` numbers, by what they are made to show."""
    generator = torch.Generator(device).manual_seed(size)

    def drawn(low: int, high: int) -> torch.Tensor:
        return torch.randint(low, high, (size,), generator=generator, device=device)

    want = torch.randn(size, generator=generator, device=device).to(dtype)
    noise = torch.randn(size, generator=generator, device=device)
    bits = [drawn(-(1 << 31), 1 << 31).to(torch.int32).view(torch.float32) for _ in range(2)]
    finite = [b.nan_to_num(1, 2, 3).to(dtype) for b in bits]
    awkward = torch.tensor(AWKWARD, device=device)
    zeros = torch.zeros_like(want)
    late = want.clone()
    late[-1:] += 100
    return {
        "equal": (want.clone(), want),
        "close": ((want.float() * (1 + noise / 1000)).to(dtype), want),
        "far": (noise.to(dtype), want),
        "on the edge": (on_the_edge(want, tolerance), want),
        "edge of all magnitudes": (on_the_edge(finite[0], tolerance), finite[0]),
        "any bits": (bits[0].to(dtype), bits[1].to(dtype)),
        "any bits that are finite": (finite[0], finite[1]),
        "awkward": (awkward[drawn(0, len(AWKWARD))].to(dtype), awkward[drawn(0, len(AWKWARD))].to(dtype)),
        "denormal": ((noise * DENORMAL).to(dtype), (want.float() * DENORMAL).to(dtype)),
        "zero where it should not be": (zeros, want),
        "zeros of either sign": (-zeros, zeros),
        "zero but for one": (torch.where(torch.arange(size, device=device) == size // 2, want, zeros), want),
        "should be zero": (want, zeros),
        "wrong at the end": (late, want),
        "NaN": (torch.full_like(want, NAN), want),
        "zero for NaN": (zeros, torch.full_like(want, NAN)),
        "infinite where finite": (torch.full_like(want, INF), want),
        "finite where infinite": (want, torch.full_like(want, -INF)),
    }


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("size", [1, 3, 8, 257, 4099, 20_003])
def test_every_content_is_seen_as_torch_sees_it(glance: CudaGlance, dtype: torch.dtype, size: int) -> None:
    for tolerance in TOLERANCES:
        agree(glance, list(contents(dtype, size, tolerance).values()), tolerance)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("tolerance", TOLERANCES, ids=str)
def test_pairs_of_single_numbers_are_each_seen_as_torch_sees_them(
    glance: CudaGlance, dtype: torch.dtype, tolerance: Tolerance
) -> None:
    """More than one launch takes."""
    values = torch.tensor(AWKWARD).to(dtype)
    pairs = [(values[i : i + 1], values[k : k + 1]) for i in range(len(AWKWARD)) for k in range(len(AWKWARD))]
    assert len(pairs) > 2 * cuda_glance.PAIRS and len(pairs) % cuda_glance.PAIRS == 0
    agree(glance, pairs, tolerance)
    agree(glance, pairs[:-1], tolerance)


def test_an_error_of_exactly_what_is_allowed_is_right_and_the_next_number_is_not(glance: CudaGlance) -> None:
    tolerance = Tolerance(max_atol=0.5, max_rtol=0.25)
    want, edge = torch.tensor([2.5]), torch.tensor([2.5 + 1.125])
    beyond = torch.nextafter(edge, torch.tensor([INF]))
    found = glance([edge, beyond], [want, want], tolerance)
    assert found is not None and found[:, 0].tolist() == [0, 1]
    assert found[0].tolist() == [0, 1.125, torch.tensor(1.125 / 2.5).item()]


def test_every_bfloat16_is_read_as_what_it_is(glance: CudaGlance) -> None:
    every = torch.arange(1 << 16).to(torch.int32).to(torch.int16).view(torch.bfloat16)
    finite = every[every.isfinite()]
    order = torch.randperm(len(finite), generator=torch.Generator().manual_seed(3))
    for tolerance in TOLERANCES:
        agree(glance, [(every, every), (every, every.flip(0))], tolerance)
        agree(glance, [(finite, finite), (finite[order], finite)], tolerance)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("begins", [(0, 1), (1, 0), (1, 1), (8, 3), (8, 8)])
def test_numbers_may_begin_anywhere(glance: CudaGlance, dtype: torch.dtype, begins: tuple[int, int]) -> None:
    size, tolerance = 3001, Tolerance()
    for got, want in contents(dtype, size, tolerance).values():
        shifted = []
        for begin, tensor in zip(begins, (got, want), strict=True):
            memory = torch.full((begin + size + 9,), 77.0, dtype=dtype)  # what lies around it is nobody's business
            memory[begin : begin + size] = tensor
            shifted.append(memory[begin : begin + size])
        agree(glance, [(shifted[0], shifted[1])], tolerance)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_outputs_need_not_be_contiguous_nor_have_one_dimension(glance: CudaGlance, dtype: torch.dtype) -> None:
    want = torch.randn(40, 30).to(dtype)
    got = want.clone()
    got[3, 4] += 1
    agree(glance, [(got, want), (got, want.T.contiguous().T), (want[0, 0], got[0, 0])][:2], Tolerance())
    agree(glance, [(want[0, 0], got[3, 4])], Tolerance())


def test_nothing_is_wrong_with_empty_outputs(glance: CudaGlance) -> None:
    empty = [torch.zeros(0, 4)] * 3
    found = glance(empty, empty, Tolerance())
    assert found is not None and found.dtype == torch.float64 and found.tolist() == [[0, 0, 0]] * 3


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int32, torch.bool, torch.float8_e4m3fn])
def test_other_kinds_of_numbers_are_left_to_torch(glance: CudaGlance, dtype: torch.dtype) -> None:
    tensor = torch.zeros(5, dtype=dtype)
    assert glance([tensor], [tensor], Tolerance()) is None


def test_what_the_kernel_could_not_read_is_left_to_torch(glance: CudaGlance, fake_libcuda: Path) -> None:
    ones = torch.ones(4)
    for got, want in [(ones, ones.bfloat16()), (ones.bfloat16(), ones), (ones, torch.ones(5)), (ones.to("meta"), ones)]:
        assert glance([ones, got], [ones, want], Tolerance()) is None
    elsewhere = HostGlance(fake_libcuda)
    elsewhere.device = "cuda"
    assert elsewhere([ones], [ones], Tolerance()) is None


class Counting:
    """A glance that counts how often it said something."""

    def __init__(self, glance: CudaGlance) -> None:
        self.glance, self.asked, self.said = glance, 0, 0

    def __call__(self, got: Sequence[torch.Tensor], want: Sequence[torch.Tensor], t: Tolerance) -> torch.Tensor | None:
        found = self.glance(got, want, t)
        self.asked, self.said = self.asked + 1, self.said + (found is not None)
        return found


@pytest.mark.parametrize("tolerance", [*TOLERANCES[:4], Tolerance(max_error_cap=0.5)], ids=str)
def test_calls_are_compared_alike_whoever_looks_first(glance: CudaGlance, tolerance: Tolerance) -> None:
    integers = torch.arange(600)
    calls = [
        ({"y": got, "k": integers, "z": want.float()}, {"y": want, "k": integers, "z": want.float()})
        for got, want in contents(torch.bfloat16, 600, tolerance).values()
    ]
    calls[0][0]["k"] = integers + 1
    counting = Counting(glance)
    found = compare_all(calls, tolerance, counting)
    assert str(found) == str(compare_all(calls, tolerance))  # as text, where NaN is NaN
    assert (counting.asked, counting.said) == (3, 2)
    assert any(c.ok for c in found) and not all(c.ok for c in found)


def test_a_verifier_looks_with_what_it_was_given(glance: CudaGlance, tmp_path: Path) -> None:
    problem = load_problem(write_problem(tmp_path / "problem", DOUBLE, [workload()]))
    counting = Counting(glance)
    verifier = Verifier(problem, InputFactory(problem, "cpu"), problem.workloads[0], glance=counting)
    inputs = verifier.inputs(5)
    right = verifier.factory.reference(inputs, problem.workloads[0])
    wrong = {"y": right["y"] + 1}
    assert verifier.check_all(Measurement(), [(inputs, right, "one"), (inputs, right, "two")])
    assert not verifier.check_all(Measurement(), [(inputs, right, "one"), (inputs, wrong, "two")])
    assert counting.said == 2


@pytest.mark.parametrize("pairs", [1, 5, 64, 65])
def test_blocks_fill_the_device_and_no_more(
    glance: CudaGlance, monkeypatch: pytest.MonkeyPatch, pairs: int
) -> None:
    grids: list[int] = []
    launch: Callable[..., None] = glance._driver.launch
    monkeypatch.setattr(
        glance._driver, "launch", lambda f, grid, *rest: (grids.append(grid), launch(f, grid, *rest))
    )
    monkeypatch.setattr(glance, "_resident", 24)
    for size, one in ((1, 1), (4096, 4), (100_000, 24)):  # numbers of four bytes, 1024 a round of a block
        grids.clear()
        tensors = [torch.ones(size)] * pairs
        agree(glance, [(t, t) for t in tensors], Tolerance())
        launches = [min(pairs - begin, cuda_glance.PAIRS) for begin in range(0, pairs, cuda_glance.PAIRS)]
        assert grids == [n * max(1, min(one, 24 // n)) for n in launches]


def test_device_code_and_judge_agree_on_the_numbers_they_share() -> None:
    source = Path(cuda_glance.__file__).with_name("gate.cu").read_text()
    assert f"#define KY_PAIRS {cuda_glance.PAIRS}\n" in source
    assert f"#define KY_GLANCE_BLOCK {cuda_glance.BLOCK}\n" in source
    assert re.search(rf"sizeof\(Glanced\) == {8 * cuda_glance.ROW_WORDS}\b", source)
