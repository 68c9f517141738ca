from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from agentcore.bounds.bound import BoundUnavailable, bound, bound_from_work
from agentcore.bounds.compare import compare
from agentcore.bounds.count import count
from agentcore.bounds.cpu import CpuRates
from agentcore.bounds.hardware import rate_table
from agentcore.problems import Problem, find_problems, load_problem, missing_blobs
from agentcore.problems.tensors import InputFactory, input_specs, output_specs
from agentcore.vocabulary import HardwareName

H200, B200, CPU = HardwareName.H200, HardwareName.B200, HardwareName.CPU


def all_bytes(problem: Problem, workload: Any) -> int:
    specs = (*input_specs(problem, workload).values(), *output_specs(problem, workload).values())
    return sum(math.prod(shape) * dtype.itemsize for shape, dtype in specs if shape is not None)


def test_a_product_counts_two_flops_per_multiply_add_and_each_byte_once(make_problem: Any) -> None:
    problem = make_problem(
        "return a @ b.t()",
        {"a": "bfloat16 m k", "b": "bfloat16 n k"},
        {"c": "bfloat16 m n"},
        [{"m": 64, "n": 32, "k": 128}],
    )
    work = count(problem, problem.workloads[0])
    assert work.flops == {"half": 2 * 64 * 32 * 128}
    assert work.input_bytes == {"a": 64 * 128 * 2, "b": 32 * 128 * 2}
    assert work.output_bytes == {"c": 64 * 32 * 2}


def test_a_large_product_is_bound_by_the_tensor_rate_and_says_how(make_problem: Any) -> None:
    problem = make_problem(
        "return a @ b.t()",
        {"a": "bfloat16 m k", "b": "bfloat16 n k"},
        {"c": "bfloat16 m n"},
        [{"m": 4096, "n": 4096, "k": 4096}],
    )
    record = bound(problem, problem.workloads[0], H200)
    rate = rate_table(H200).rates()["half"].value
    assert record.limiter == "products"
    assert record.t_sol_us == pytest.approx(2 * 4096**3 / rate * 1e6)
    assert record.rates["half"] == rate
    assert any("half rate" in line for line in record.assumptions)


@pytest.mark.parametrize(
    ("dtypes", "body", "tolerance", "origin", "unit"),
    [
        (("float8_e4m3fn", "float8_e4m3fn"), "return a.float() @ b.float()", {}, "fp8", "fp8"),
        (("float8_e4m3fn", "float8_e4m3fn"), "return (a.float() * 0.5) @ (b.float() / 3)", {}, "fp8", "fp8"),
        (("float8_e4m3fn", "bfloat16"), "return a.float() @ b.float()", {}, "half", "half"),
        (("bfloat16", "bfloat16"), "return a.float() @ b.float()", {}, "half", "half"),
        (("float32", "float32"), "return a @ b", {"max_atol": 1e-5, "max_rtol": 1e-5}, "fp32", "tf32"),
        (("float32", "float32"), "return a @ b", {"max_atol": 1e-5, "max_rtol": 0.05}, "fp32", "half"),
        (("float64", "float64"), "return (a @ b).float()", {"max_atol": 1e-5, "max_rtol": 1e-5}, "fp64", "fp64"),
    ],
)
def test_a_products_rate_follows_where_its_operands_came_from(
    make_problem: Any, dtypes: tuple[str, str], body: str, tolerance: dict[str, float], origin: str, unit: str
) -> None:
    problem = make_problem(
        body,
        {"a": f"{dtypes[0]} m k", "b": f"{dtypes[1]} k m"},
        {"c": "float32 m m"},
        [{"m": 256, "k": 512}],
        tolerance,
    )
    flops = 2 * 256 * 256 * 512
    assert count(problem, problem.workloads[0]).flops == {origin: flops}
    record = bound(problem, problem.workloads[0], H200)
    assert record.flops == {unit: flops}
    assert record.resource_us["products"] == pytest.approx(flops / rate_table(H200).rates()[unit].value * 1e6)


def test_two_packed_factors_to_a_byte_are_two_multiply_adds(make_problem: Any) -> None:
    problem = make_problem(
        "return torch._scaled_mm(a, b.t(), sa, sb, out_dtype=torch.bfloat16)",
        {"a": "float4_e2m1fn_x2 m half", "b": "float4_e2m1fn_x2 n half",
         "sa": "float8_e4m3fn sm", "sb": "float8_e4m3fn sn"},
        {"c": "bfloat16 m n"},
        [{"m": 128, "n": 256, "half": 64, "sm": 128 * 8, "sn": 256 * 8}],
    )  # fmt: skip
    work = count(problem, problem.workloads[0])
    assert work.flops == work.direct_flops == {"fp4": 2 * 128 * 256 * 128}
    assert work.input_bytes["a"] == 128 * 64


def test_only_the_slices_that_are_read_count_even_behind_a_cast(make_problem: Any) -> None:
    axes = [{"rows": 100, "cols": 64}]
    inputs, outputs = {"x": "bfloat16 rows cols"}, {"y": "float32 1 cols"}
    for body in ("return x[-1:].float() * 2", "return x.float()[-1:] * 2", "return x.t().float()[:, -1:].t() * 2"):
        problem = make_problem(body, inputs, outputs, axes)
        needed = count(problem, problem.workloads[0]).input_bytes["x"]
        assert needed <= 100 * 64 * 2
        if ".t()" not in body:
            assert needed == 64 * 2, body


def test_overlapping_slices_count_once(make_problem: Any) -> None:
    problem = make_problem(
        "return x[:60] + x[40:]", {"x": "float32 rows"}, {"y": "float32 60"}, [{"rows": 100}]
    )
    assert count(problem, problem.workloads[0]).input_bytes == {"x": 400}


def test_broadcast_inputs_count_once(make_problem: Any) -> None:
    problem = make_problem(
        "return (x * w.expand(1000, -1)) @ w.expand(8, -1).t()",
        {"x": "bfloat16 rows 64", "w": "bfloat16 64"},
        {"y": "bfloat16 rows 8"},
        [{"rows": 1000}],
    )
    assert count(problem, problem.workloads[0]).input_bytes == {"x": 128000, "w": 128}


def test_work_that_does_not_reach_an_output_is_not_counted(make_problem: Any) -> None:
    problem = make_problem(
        "unused = x @ x.t(); shape = torch.zeros_like(z); return x * 2 + shape",
        {"x": "bfloat16 n n", "z": "bfloat16 n n"},
        {"y": "bfloat16 n n"},
        [{"n": 32}],
    )
    work = count(problem, problem.workloads[0])
    assert work.flops == {}
    assert work.input_bytes == {"x": 2048, "z": 0}
    assert "z is not needed for the result" in work.notes


def test_work_written_in_place_is_counted(make_problem: Any) -> None:
    problem = make_problem(
        "y = torch.zeros_like(x); y[:16] = (x @ x)[:16]; y[16:].add_(w[16:]); return y",
        {"x": "bfloat16 n n", "w": "bfloat16 n n"},
        {"y": "bfloat16 n n"},
        [{"n": 32}],
    )
    work = count(problem, problem.workloads[0])
    assert work.flops == {"half": 2 * 16 * 32 * 32}  # only the rows that are kept
    assert work.input_bytes == {"x": 2048, "w": 1024}


def test_rows_reached_through_indices_count_by_the_indices(make_problem: Any) -> None:
    problem = make_problem(
        "return F.embedding(ids, table)",
        {"ids": "int64 n", "table": "bfloat16 vocab 64"},
        {"y": "bfloat16 n 64"},
        [{"n": 8, "vocab": 1000}],
    )
    work = count(problem, problem.workloads[0])
    assert work.input_bytes["ids"] == 64
    assert 6 * 128 <= work.input_bytes["table"] <= 8 * 128
    assert any("from seed to seed" in note for note in work.notes)


def test_rows_reached_through_indices_made_of_floats_are_left_out_and_said_where_they_are_too_many(
    make_problem: Any,
) -> None:
    problem = make_problem(
        "return table[x.argmax(-1)]",
        {"x": "float32 n 64", "table": "bfloat16 vocab 64"},
        {"y": "bfloat16 n 64"},
        [{"n": 8, "vocab": 1000}, {"n": 8, "vocab": 1 << 22}],
    )
    small, large = (count(problem, w) for w in problem.workloads)
    assert small.input_bytes["x"] == large.input_bytes["x"] == 8 * 64 * 4
    assert 0 < small.input_bytes["table"] <= 8 * 128
    assert any("real inputs" in note for note in small.notes)
    assert large.input_bytes["table"] == 0
    assert any("indices computed from content" in note for note in large.notes)


def test_an_output_that_shows_an_input_needs_it_read(make_problem: Any) -> None:
    problem = make_problem("return x[:4]", {"x": "float32 n"}, {"y": "float32 4"}, [{"n": 10}])
    assert count(problem, problem.workloads[0]).input_bytes == {"x": 16}


def test_causal_attention_counts_the_lower_triangle(make_problem: Any) -> None:
    specs = dict.fromkeys(("q", "k", "v"), "bfloat16 b h s d")
    axes = [{"b": 2, "h": 3, "s": 64, "d": 32}]
    for causal, pairs in ((False, 64 * 64), (True, 64 * 65 // 2)):
        body = f"return F.scaled_dot_product_attention(q, k, v, is_causal={causal})"
        problem = make_problem(body, specs, {"y": "bfloat16 b h s d"}, axes)
        flops = sum(count(problem, problem.workloads[0]).flops.values())
        # The first causal row has one score, whose weight is 1 whatever it is.
        assert flops == 2 * 2 * 3 * 32 * (2 * pairs - causal)


ATTENTION = "return torch.softmax((q @ k.transpose(1, 2)).masked_fill({mask}, float('-inf')), -1) @ q"


def test_products_under_a_mask_made_from_content_are_not_counted(make_problem: Any) -> None:
    problem = make_problem(
        ATTENTION.format(mask="m > 0"),
        {"q": "bfloat16 b s d", "k": "bfloat16 b s d", "m": "float32 s s"},
        {"y": "bfloat16 b s d"},
        [{"b": 2, "s": 16, "d": 8}],
    )
    work = count(problem, problem.workloads[0])
    assert work.flops == {}
    assert work.input_bytes == {"q": 512, "k": 512, "m": 1024}
    assert any("a kernel may skip them" in note for note in work.notes)


@pytest.mark.parametrize(
    "mask",
    [
        "torch.ones(s, s, dtype=torch.bool).triu(1)",
        "torch.ones(s, s, dtype=torch.bool, device=q.device).tril().logical_not().unsqueeze(0)",
        "torch.arange(s)[:, None] < torch.arange(s)[None]",
        "~(torch.arange(s).view(-1, 1) >= torch.arange(s).view(1, -1))",
    ],
)
def test_attention_under_a_causal_mask_counts_what_it_leaves(make_problem: Any, mask: str) -> None:
    problem = make_problem(
        "s = q.shape[1]; " + ATTENTION.format(mask=mask),
        {"q": "bfloat16 b s d", "k": "bfloat16 b s d"},
        {"y": "bfloat16 b s d"},
        [{"b": 2, "s": 16, "d": 8}],
    )
    # The only score of the first row has weight 1, whatever it is.
    assert count(problem, problem.workloads[0]).flops == {"half": 2 * 2 * 8 * (2 * (16 * 17 // 2) - 1)}


def test_an_added_causal_mask_and_a_window_count_the_same_way(make_problem: Any) -> None:
    body = (
        "s = q.shape[1]; m = torch.full((s, s), float('-inf')).triu(1); "
        "m[torch.arange(s)[:, None] - torch.arange(s) >= 4] = -1e9; "
        "return torch.softmax((q @ k.transpose(1, 2)).float() * 0.3 + m, -1).to(q.dtype) @ q"
    )
    inputs = {"q": "bfloat16 b s d", "k": "bfloat16 b s d"}
    problem = make_problem(body, inputs, {"y": "bfloat16 b s d"}, [{"b": 2, "s": 16, "d": 8}])
    pairs = sum(min(row + 1, 4) for row in range(16))
    assert count(problem, problem.workloads[0]).flops == {"half": 2 * 2 * 8 * (2 * pairs - 1)}


def test_a_known_random_mask_counts_what_its_rows_leave(make_problem: Any) -> None:
    problem = make_problem(
        ATTENTION.format(mask="m"),
        {"q": "bfloat16 b s d", "k": "bfloat16 b s d", "m": "bool s s"},
        {"y": "bfloat16 b s d"},
        [{"b": 2, "s": 64, "d": 8}],
    )
    flops = count(problem, problem.workloads[0]).flops["half"]
    everything = 2 * 2 * 2 * 64 * 64 * 8
    assert 0.3 * everything < flops < 0.6 * everything


def test_a_reference_that_branches_on_content_is_counted_on_real_content(make_problem: Any) -> None:
    problem = make_problem(
        "n = torch.nonzero(x[:, 0] > -9).shape[0]; return x[:1] * n", {"x": "float32 s d"}, {"y": "float32 1 d"},
        [{"s": 8, "d": 4}, {"s": 1 << 24, "d": 8}],
    )  # fmt: skip
    work = count(problem, problem.workloads[0])
    assert work.input_bytes["x"] == 16
    assert any("on real inputs" in note for note in work.notes)
    with pytest.raises(BoundUnavailable, match=r"depends on content.*MiB of tensors"):
        count(problem, problem.workloads[1])


def test_lengths_and_indices_are_followed_for_what_they_are(make_problem: Any) -> None:
    body = (
        "out = torch.zeros_like(q); starts = torch.cumsum(lens, 0)\n"
        "    for b in range(len(lens)):\n"
        "        stop = int(starts[b]); n = int(lens[b])\n"
        "        if n == 0: continue\n"
        "        rows = k[pages[stop - n:stop].long()]\n"
        "        out[b] = torch.softmax(rows @ q[b], 0) @ rows\n"
        "    return out"
    )
    problem = make_problem(
        body,
        {"q": "float32 b d", "k": "float32 p d", "lens": "int32 b", "pages": "int32 n"},
        {"y": "float32 b d"},
        [{"b": 3, "p": 50, "n": 8, "d": 4}],
        generator=(
            "return {'q': torch.randn(axes['b'], axes['d']), 'k': torch.randn(axes['p'], axes['d']),"
            " 'lens': torch.tensor([3, 0, 5], dtype=torch.int32),"
            " 'pages': torch.tensor([7, 7, 9, 1, 2, 3, 9, 40], dtype=torch.int32)}"
        ),
    )
    work = count(problem, problem.workloads[0])
    assert work.flops == {"fp32": 2 * 2 * 8 * 4}
    assert work.input_bytes == {"q": 2 * 4 * 4, "k": 6 * 4 * 4, "lens": 12, "pages": 32} | {"lens": 0}


def test_a_reference_that_cannot_run_says_so(make_problem: Any) -> None:
    problem = make_problem("raise RuntimeError('no such kernel')", {"x": "float32 n"}, {"y": "float32 n"}, [{"n": 2}])
    with pytest.raises(BoundUnavailable, match="no such kernel"):
        bound(problem, problem.workloads[0], H200)


def test_zero_sized_work_has_a_positive_bound(make_problem: Any, cpu_rates: CpuRates) -> None:
    problem = make_problem("return x * 2", {"x": "float32 n 4"}, {"y": "float32 n 4"}, [{"n": 0}])
    for hardware in HardwareName:
        assert bound(problem, problem.workloads[0], hardware, cpu_rates=cpu_rates).t_sol_us > 0


@pytest.mark.parametrize("hardware", [H200, B200, HardwareName.H100, CPU])
def test_bounds_grow_with_every_axis(make_problem: Any, cpu_rates: CpuRates, hardware: HardwareName) -> None:
    sizes = [64, 200, 1000, 4096, 9000]
    for axis in ("m", "n", "k"):
        axes = [{"m": 300, "n": 500, "k": 700} | {axis: size} for size in sizes]
        problem = make_problem(
            "return torch.relu(a @ b)", {"a": "bfloat16 m k", "b": "bfloat16 k n"}, {"c": "bfloat16 m n"}, axes
        )
        found = [bound(problem, w, hardware, cpu_rates=cpu_rates).t_sol_us for w in problem.workloads]
        assert found == sorted(found), axis
        # The CPU's outputs are not counted, so an axis that only widens them may change nothing.
        assert found[-1] > found[0] or not hardware.is_gpu


def test_bytes_never_exceed_what_all_tensors_hold(suite: list[Problem], cpu_rates: CpuRates) -> None:
    for problem in suite:
        factory = InputFactory(problem, "cpu")
        for workload in (*problem.cpu_workloads[:1], problem.workloads[0])[:1]:
            work = count(problem, workload, factory)
            moved = sum(work.input_bytes.values()) + sum(work.output_bytes.values())
            assert moved <= all_bytes(problem, workload), problem.name
            # What is not all of every input is said.
            if moved != all_bytes(problem, workload):
                assert any("needed for the result" in n or "seed to seed" in n for n in work.notes), problem.name
            for hardware in HardwareName:
                record = bound_from_work(problem, workload, hardware, work, cpu_rates=cpu_rates)
                assert record.t_sol_us == max(1e-3, *record.resource_us.values())
                assert sum(record.bytes_moved.values()) <= all_bytes(problem, workload)
                if hardware.is_gpu:
                    everything = all_bytes(problem, workload) / rate_table(hardware).rates()["memory"].value * 1e6
                    assert record.resource_us["memory"] <= everything


def test_the_cpu_bound_assumes_the_fastest_place_the_inputs_can_come_from(
    make_problem: Any, cpu_rates: CpuRates
) -> None:
    problem = make_problem("return x + 1", {"x": "float32 n"}, {"y": "float32 n"}, [{"n": 1 << 20}, {"n": 1 << 28}])
    small, large = (bound(problem, w, CPU, cpu_rates=cpu_rates) for w in problem.workloads)
    assert small.t_sol_us == pytest.approx((4 << 20) / (2.5e11 * 1.1) * 1e6)
    assert large.t_sol_us == pytest.approx((4 << 28) / (8e10 * 1.1) * 1e6)
    assert small.bytes_moved == {"x": 4 << 20}
    assert any("outputs may still be in a cache" in line for line in small.assumptions)


@pytest.mark.slow
def test_no_bound_exceeds_a_published_baselines_time(sample: Path) -> None:
    compared = 0
    unavailable: set[str] = set()
    for path in find_problems(sample):
        problem = load_problem(path)
        assert problem.official is not None
        factory = InputFactory(problem, "cpu")
        # Of each problem two that are not its largest: a reference that loops over its sequence takes seconds there.
        sized = sorted(problem.workloads, key=lambda workload: all_bytes(problem, workload))
        for workload in (sized[len(sized) // 4], sized[len(sized) // 2]):
            try:
                work = count(problem, workload, factory)
            except BoundUnavailable:
                unavailable.add(problem.name)
                continue
            stated = problem.official["workloads"][workload.index]
            for profile in ("boost", "sol-execbench"):
                found = compare(problem, workload, B200, work, stated["sol_us"], stated["baseline_us"], profile)
                # What a published kernel does not do (write its outputs, for one) is said, and is no evidence.
                assert found.unlike_ours or not found.is_above_baseline, (problem.name, workload.axes)
            compared += 1
    assert compared >= 60
    assert unavailable == {p.name for p in map(load_problem, find_problems(sample)) if missing_blobs(p)}
