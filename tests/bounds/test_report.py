"""The comparison with published bounds and recorded times, and the report of it that is kept for our own suite."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from agentcore.bounds.bound import bound, bound_from_work
from agentcore.bounds.cache import cached_count
from agentcore.bounds.causes import AGREES, IN_FULL, IN_PLACE, OTHER_WORKLOADS
from agentcore.bounds.compare import Comparison, compare
from agentcore.bounds.count import count
from agentcore.bounds.hardware import rate_table
from agentcore.cli import main
from agentcore.vocabulary import HardwareName

ROOT = Path(__file__).resolve().parents[2]
REPORT = Path(__file__).parent / "data" / "h200_suite.json"
B200 = HardwareName.B200
FEWER_BYTES = "official counts fewer bytes than the tensors have at 2 bytes per element"


@pytest.mark.parametrize(
    ("dtype", "official_of", "cause"),
    [
        ("float32", lambda us: us + 0.4, AGREES),
        ("float32", lambda us: us / 2 + 0.4, "official counts 4-byte tensors at 2 bytes per element"),
        ("bfloat16", lambda us: us / 2 + 0.4, "official leaves out one input"),
        ("bfloat16", lambda us: us / 9 + 0.4, FEWER_BYTES),
        ("float32", lambda us: us * 0.86 + 0.4, "ours is higher, not explained"),
        ("bfloat16", lambda us: us * 9 + 0.4, "ours is lower, not explained"),
    ],
)
def test_a_difference_is_put_down_to_what_would_give_the_published_number(
    make_problem: Any, dtype: str, official_of: Any, cause: str
) -> None:
    problem = make_problem("return x * 2", {"x": f"{dtype} n"}, {"y": f"{dtype} n"}, [{"n": 1 << 24}])
    work = count(problem, problem.workloads[0])
    ours = bound_from_work(problem, problem.workloads[0], B200, work).t_sol_us
    found = compare(problem, problem.workloads[0], B200, work, official_of(ours), 2 * ours)
    assert found.cause == cause
    assert not found.is_above_baseline


def published(problem: Any, *times: tuple[float, float | None]) -> Any:
    """``problem`` with (bound, baseline) in µs published for each of its workloads."""
    rows = [{"index": i, "sol_us": sol, "baseline_us": baseline} for i, (sol, baseline) in enumerate(times)]
    return dataclasses.replace(problem, official={"hardware": "b200", "source": "test", "workloads": rows})


def compared(problem: Any, sol_us: float, baseline_us: float | None = None, index: int = 0) -> Comparison:
    workload = problem.workloads[index]
    return compare(problem, workload, B200, count(problem, workload), sol_us, baseline_us)


def bound_us(problem: Any, index: int = 0) -> float:
    return bound(problem, problem.workloads[index], B200).t_sol_us


def test_masks_other_orders_and_minimal_convolutions_explain_a_higher_published_bound(make_problem: Any) -> None:
    squares = dict.fromkeys(("q", "k", "v"), "bfloat16 b s d")
    causal = "F.scaled_dot_product_attention(q, k, v, is_causal=True)"
    whole = "F.scaled_dot_product_attention(q, k, v)"
    axes = [{"b": 64, "s": 2048, "d": 128}]
    in_full = bound_us(make_problem(f"return {whole}", squares, {"y": "bfloat16 b s d"}, axes))
    problem = make_problem(f"return {causal}", squares, {"y": "bfloat16 b s d"}, axes)
    assert compared(problem, in_full + 0.4).cause == IN_FULL
    kernels = {"x": "bfloat16 b 256 n n", "w": "bfloat16 256 256 3 3"}
    axes = [{"b": 32, "n": 64}]
    problem = make_problem("return F.conv2d(x, w, padding=1)", kernels, {"y": "bfloat16 b 256 n n"}, axes)
    direct = 2 * 32 * 64 * 64 * 256 * 256 * 9 / rate_table(B200).rates()["half"].value * 1e6
    assert compared(problem, direct + 0.4).cause == IN_FULL
    assert "some of the products" in compared(problem, direct * 0.7 + 0.4).cause


def test_a_published_bound_without_weights_or_with_one_output_of_several_is_named(make_problem: Any) -> None:
    problem = make_problem(
        "return x.repeat(1, 64), x * 2, x + 1", {"x": "bfloat16 m 64"},
        {"a": "bfloat16 m 4096", "b": "bfloat16 m 64", "c": "bfloat16 m 64"}, [{"m": 8192}],
    )  # fmt: skip
    rate = rate_table(B200).rates()["memory"].value * 1e-6
    rows = 8192 * 64 * 2
    only_b = 2 * rows / rate
    assert compared(problem, only_b + 0.4).cause == "official counts one output of several"
    problem = make_problem(
        "return x * w.sum(0)", {"x": "bfloat16 m 64", "w": "bfloat16 786432 64"}, {"a": "bfloat16 m 64"},
        [{"m": 1 << 18}],
    )  # fmt: skip
    rows = (1 << 18) * 64 * 2
    assert compared(problem, 2 * rows / rate + 0.4).cause == "official leaves out one input"
    assert compared(problem, 3 * rows / rate + 0.4).cause.startswith("official leaves out the weights and counts an")


def test_intermediate_results_and_outputs_at_half_their_size_are_named(make_problem: Any) -> None:
    problem = make_problem(
        "return F.rms_norm(x, (64,)) @ w", {"x": "bfloat16 m 64", "w": "bfloat16 64 64"}, {"y": "bfloat16 m 64"},
        [{"m": 1 << 18}],
    )  # fmt: skip
    rows = (1 << 18) * 64 * 2 / rate_table(B200).rates()["memory"].value * 1e6
    for more in (1, 2, 3):
        found = compared(problem, (2 + more) * rows + 0.4)
        assert found.cause == "official counts intermediate results as well"
    problem = make_problem("return x.repeat(1, 4)", {"x": "float32 m 64"}, {"y": "float32 m 256"}, [{"m": 1 << 18}])
    assert compared(problem, (2 + 4) * rows + 0.4).cause == "official counts outputs at 2 bytes per element"


def test_the_constant_is_that_of_the_problem(make_problem: Any) -> None:
    problem = make_problem("return x * 2", {"x": "bfloat16 n"}, {"y": "bfloat16 n"}, [{"n": 64}, {"n": 1 << 22}])
    us = bound_us(problem, 1)
    assert compared(published(problem, (0.5, None), (us + 0.4, None)), us + 0.4, index=1).cause == AGREES
    assert compared(published(problem, (0.001, None), (us, None)), us, index=1).cause == AGREES
    assert compared(published(problem, (0.5, None), (us, None)), us, index=1).cause != AGREES


def test_published_bounds_that_fall_where_workloads_grow_are_said_to_be_of_others(make_problem: Any) -> None:
    axes = [{"n": 1 << 20}, {"n": 1 << 24}, {"n": 1 << 22}]
    problem = make_problem("return x * 2", {"x": "float32 n"}, {"y": "float32 n"}, axes)
    mixed = published(problem, (40.0, None), (1.0, None), (2.0, None))
    assert [compared(mixed, us, index=i).cause for i, us in enumerate((40.0, 1.0))] == [OTHER_WORKLOADS] * 2
    rising = published(problem, (1.0, None), (400.0, None), (2.0, None))
    assert compared(rising, 400.0, index=1).cause == "ours is lower, not explained"


def test_a_kernel_that_writes_into_its_input_or_returns_a_view_is_not_one_to_compare_with(make_problem: Any) -> None:
    tensors = {"cache": "bfloat16 n 64", "new": "bfloat16 4 64"}
    problem = make_problem(
        "cache[2:6] = new; return cache", tensors, {"y": "bfloat16 n 64"}, [{"n": 1 << 18}]
    )  # fmt: skip
    work = count(problem, problem.workloads[0])
    whole = (1 << 18) * 64 * 2
    assert work.input_bytes == {"cache": whole - 512, "new": 512} and work.output_bytes == {"y": whole}
    assert work.unmoved_bytes == 2 * (whole - 512)
    assert any("y is written to memory of its own" in note for note in work.notes)
    found = compared(problem, 0.4, 3.0)
    assert found.is_above_baseline and found.unlike_ours == "returns views or writes into its inputs"
    assert found.cause == IN_PLACE

    problem = make_problem("return x.expand(65536, -1)", {"x": "float32 n"}, {"y": "float32 65536 n"}, [{"n": 64}])
    work = count(problem, problem.workloads[0])
    assert work.unmoved_bytes == (65535 + 2) * 64 * 4
    assert compared(problem, 0.5, 0.9).unlike_ours == "returns views or writes into its inputs"

    for body in ("cache.mul_(2); return cache", "y = cache.clone(); y[2:6] = new; return y", "return cache * 1"):
        problem = make_problem(body, tensors, {"y": "bfloat16 n 64"}, [{"n": 64}])
        assert count(problem, problem.workloads[0]).unmoved_bytes == 0, body
    body = "cache.index_copy_(0, torch.tensor([9, 3, 5, 1]), new); return cache.view(-1)[:640].view(10, 64)"
    problem = make_problem(body, tensors, {"y": "bfloat16 10 64"}, [{"n": 64}])
    assert count(problem, problem.workloads[0]).unmoved_bytes == 2 * 6 * 64 * 2


def test_a_published_time_in_which_the_outputs_cannot_be_written_is_not_one_to_compare_with(make_problem: Any) -> None:
    problem = make_problem(
        "return torch.zeros(n.shape[0], 4096) + n[:, None]", {"n": "float32 r"}, {"y": "float32 r 4096"},
        [{"r": 1 << 14}, {"r": 1 << 15}],
    )  # fmt: skip
    us = bound_us(problem, 1)
    honest = published(problem, (20.0, us), (40.0, us * 0.999))
    assert compared(honest, 40.0, us * 0.999, 1).unlike_ours == "takes less than writing the outputs does"
    small = make_problem(
        "return (x @ w)[:4]", {"x": "float32 m k", "w": "float32 k 8"}, {"y": "float32 4 8"}, [{"m": 4, "k": 1 << 20}]
    )
    us = bound_us(small)
    too_fast = compared(published(small, (us, us / 2)), us, us / 2)
    assert too_fast.is_above_baseline and not too_fast.unlike_ours


def test_counted_work_is_kept_by_content(make_problem: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentcore.bounds.cache._WORTH_S", 0.0)
    problem = make_problem("return x * 2", {"x": "float32 n"}, {"y": "float32 n"}, [{"n": 8}, {"n": 16}])
    first = cached_count(problem, problem.workloads[0], None, tmp_path)
    (file,) = (tmp_path / "work").iterdir()
    kept = json.loads(file.read_text())
    kept["notes"] = ["from the cache"]
    file.write_text(json.dumps(kept))
    again = cached_count(problem, problem.workloads[0], None, tmp_path)
    assert again.notes == ("from the cache",) and again.input_bytes == first.input_bytes
    assert cached_count(problem, problem.workloads[1], None, tmp_path).notes == ()
    file.write_text("{broken")
    assert cached_count(problem, problem.workloads[0], None, tmp_path) == first


def test_a_bound_names_its_rates_sources_and_the_measured_ceilings_it_does_not_use(make_problem: Any) -> None:
    problem = make_problem(
        "return a @ b", {"a": "bfloat16 n n", "b": "bfloat16 n n"}, {"c": "bfloat16 n n"}, [{"n": 2048}]
    )
    record = bound(problem, problem.workloads[0], HardwareName.H200)
    assert record.profile == "boost" and record.rates.keys() == record.rate_sources.keys()
    assert "1980 MHz" in record.rate_sources["half"]
    assert record.ceilings["half"] == rate_table(HardwareName.H200).ceilings["half"].value < record.rates["half"]
    assert record.t_sol_us == pytest.approx(record.flops["half"] / record.rates["half"] * 1e6)


def test_the_kept_report_has_no_time_below_its_bound_and_is_what_the_command_writes(tmp_path: Path) -> None:
    kept = json.loads(REPORT.read_text())
    assert len(kept["recorded"]) >= 150 and not kept["unavailable"]
    assert all(row["factor"] >= 1 for row in kept["recorded"])
    out = tmp_path / "report.json"
    problem = ROOT / "problems" / "rmsnorm_h4096"
    records = str(ROOT / "tests" / "data" / "h200")
    options = ["--hardware", "h200", "--compare", "--records", records, "--json", str(out)]
    assert main(["bounds", str(problem), *options]) == 0
    ours = {(r["uuid"], r["what"]): r for r in kept["recorded"] if r["problem"] == "rmsnorm_h4096"}
    found = {(r["uuid"], r["what"]): r for r in json.loads(out.read_text())["recorded"]}
    assert ours.keys() <= found.keys() and len(ours) >= 10
    assert all(found[key]["bound_us"] == row["bound_us"] for key, row in ours.items())

