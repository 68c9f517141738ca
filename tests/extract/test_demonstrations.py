"""The two models written for the purpose: what is found in them, that it is right, and how it is ranked."""

from __future__ import annotations

import json
import math

import pytest
import torch

from agentcore.cli import main
from agentcore.extract.result import Extraction
from agentcore.extract.writing import Written
from agentcore.judge.correctness import compare
from agentcore.problems import load_problem
from agentcore.problems.tensors import InputFactory


@pytest.fixture(params=["decoder", "denoiser"])
def extraction(request: pytest.FixtureRequest) -> Extraction:
    found: Extraction = request.getfixturevalue(request.param)
    return found


def by_name(extraction: Extraction, part: str) -> Written:
    (found,) = [w for w in extraction.written if part in w.problem.name]
    return found


def test_every_layer_merges_into_the_same_five_candidates(decoder: Extraction) -> None:
    operators = {w.problem.name.partition("-")[2]: len(w.candidate.occurrences) for w in decoder.written}
    assert operators == {
        "input_norm_q_proj_k_proj_v_proj": 3,
        "attention": 3,
        "o_proj_add": 3,
        "post_norm_gate_proj_up_proj_silu_mul": 3,
        "down_proj_add": 3,
    }
    places = [o.modules for o in by_name(decoder, "o_proj").candidate.occurrences]
    assert places == [(f"layers.{i}.attention.o_proj",) for i in range(3)]


def test_a_diffusion_block_is_cut_at_its_products(denoiser: Extraction) -> None:
    count = {w.problem.name.partition("-")[2]: len(w.candidate.occurrences) for w in denoiser.written}
    assert count["query_norm_key_norm_attention"] == 2, "norms of query and key go with the attention that reads them"
    assert count["norm_1_qkv_add_mul"] == 2, "a norm and its modulation go with the projection"
    assert count["to_key_to_value"] == 2
    assert count["modulation_1_modulation_0"] == 2
    assert sum(count.values()) == 22


def test_attention_written_out_is_one_candidate(denoiser: Extraction) -> None:
    (found,) = [w for w in denoiser.written if "probs" in w.problem.name]
    assert found.problem.reference.count("torch.matmul") == 2
    assert "torch.softmax" in found.problem.reference


def test_references_give_what_the_model_gave(extraction: Extraction) -> None:
    assert not extraction.failures
    assert extraction.was_run
    assert extraction.whole.comparisons == len(extraction.shapes)
    for w in extraction.written:
        calls, places, outputs = len(extraction.shapes), len(w.candidate.occurrences), len(w.problem.definition.outputs)
        assert w.agreement.comparisons == calls * places * outputs
        assert w.agreement.exact == w.agreement.comparisons, w.problem.name


def test_workloads_are_the_shapes_seen_and_others_are_held_out(decoder: Extraction) -> None:
    for w in decoder.written:
        seen = [workload.axes["tokens"] for workload in w.problem.workloads]
        hidden = [workload.axes["tokens"] for workload in w.problem.heldout]
        assert seen == [1, 24, 128]
        assert hidden == [13, 77, 9]
        assert all(1 < value < 128 for value in hidden)
    definition = by_name(decoder, "gate_proj").problem.definition
    assert definition.const_axes["hidden"] == 256
    assert definition.const_axes["intermediate"] == 704


def test_problems_check_loads_all_and_runs_one_in_its_sandbox(
    denoiser: Extraction, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["problems", "check", str(denoiser.output)]) == 0
    assert f"{len(denoiser.written)} of {len(denoiser.written)} problems load" in capsys.readouterr().out
    (with_blob,) = [w for w in denoiser.written if "probs" in w.problem.name]
    assert main(["problems", "check", str(with_blob.problem.root), "--reference"]) == 0
    assert "the reference ran" in capsys.readouterr().out


def test_held_out_shapes_run(extraction: Extraction) -> None:
    for w in extraction.written:
        factory = InputFactory(w.problem, "cpu")
        for workload in w.problem.heldout:
            inputs = factory.make(workload, torch.Generator().manual_seed(1))
            outputs = factory.reference(inputs, workload)
            assert all(bool(value.isfinite().all()) for value in outputs.values())


def test_tolerances_admit_the_exact_result_and_refuse_zeros(extraction: Extraction) -> None:
    for w in extraction.written:
        workload = w.problem.workloads[-1]
        factory = InputFactory(w.problem, "cpu")
        inputs = factory.make(workload, torch.Generator().manual_seed(5))
        expected = factory.reference(inputs, workload)
        wide = {k: v.float() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for k, v in inputs.items()}
        source = w.problem.reference.replace("torch.bfloat16", "torch.float32")
        scope: dict[str, object] = {}
        exec(source, scope)
        run = scope["run"]
        assert callable(run)
        exact = run(*wide.values())
        exact = exact if isinstance(exact, tuple) else (exact,)
        got = {n: value.to(expected[n].dtype) for n, value in zip(expected, exact, strict=True)}
        assert compare(got, expected, workload.tolerance).ok, w.problem.name
        half = {name: value * 0.5 for name, value in expected.items()}
        assert not compare(half, expected, workload.tolerance).ok, w.problem.name
        assert w.measured.zeros_pass < 0.25, w.problem.name


def test_shares_add_up_and_order_the_table(extraction: Extraction) -> None:
    rows = extraction.rankings["h200"]
    assert math.isclose(sum(row.share for row in rows), 1.0)
    assert [row.share for row in rows] == sorted((row.share for row in rows), reverse=True)
    for row in rows:
        for call, us in row.call_us.items():
            terms = [b.t_sol_us * b.calls.get(call, 0) for b in row.workloads if b.t_sol_us is not None]
            assert math.isclose(us, sum(terms))
        assert sum(sum(b.calls.values()) for b in row.workloads) == row.occurrences * len(extraction.shapes)


def test_report_has_its_json_twin(decoder: Extraction) -> None:
    document = json.loads((decoder.output / "report.json").read_text())
    text = (decoder.output / "README.md").read_text()
    assert [row["candidate"] for row in document["rankings"]["h200"]] == [r.candidate for r in decoder.rankings["h200"]]
    for candidate in document["candidates"]:
        assert candidate["name"] in text
        assert candidate["digest"] == load_problem(decoder.output / candidate["name"]).digest
        assert candidate["agreement"]["bit_for_bit"] == candidate["agreement"]["tensors"] > 0


def test_what_shows_no_size_is_left_out_and_named(decoder: Extraction) -> None:
    (left,) = decoder.left
    assert "cos" in left.what
    assert left.reason == "it needs the size tokens, which none of its inputs shows"


def test_contents_that_mean_something_are_kept(denoiser: Extraction) -> None:
    (attention,) = [w for w in denoiser.written if "probs" in w.problem.name]
    workload = attention.problem.workloads[0]
    assert workload.inputs["present"].type == "safetensors"
    inputs = InputFactory(attention.problem, "cpu").make(workload, torch.Generator().manual_seed(0))
    assert inputs["present"].sum() == 12 + 7
    assert not attention.problem.heldout
