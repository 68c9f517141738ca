"""The table in ``agentcore/problems/roles.py``: what an input is taken for, and what its content then holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from agentcore.problems import Definition, load_problem
from agentcore.problems.roles import Role, guess
from agentcore.problems.tensors import InputFactory

AXES = {
    "batch": 2, "seq_len": 16, "hidden": 32, "num_experts": 8, "num_experts_per_tok": 2, "vocab_size": 500,
    "num_pages": 40, "num_kv_indices": 24, "total_q": 19, "batch_plus_1": 3, "num_tokens": 12, "one": 1,
}  # fmt: skip

Case = tuple[str, str, list[str], str]


def definition_of(inputs: list[Case], constraints: list[str] | None = None) -> dict[str, Any]:
    return {
        "name": "roles",
        "axes": {name: {"type": "const", "value": value} for name, value in AXES.items()},
        "inputs": {n: {"dtype": d, "shape": s, "description": text} for n, d, s, text in inputs},
        "outputs": {"out": {"shape": ["batch"], "dtype": "float32"}},
        "constraints": constraints,
        "reference": f"def run({', '.join(case[0] for case in inputs)}):\n    pass\n",
    }


def role_of(name: str, dtype: str, shape: list[str], text: str, others: list[Case] | None = None) -> Role:
    definition = Definition.model_validate(definition_of([(name, dtype, shape, text), *(others or [])]))
    return guess(name, definition.inputs[name], definition, AXES).role


@pytest.mark.parametrize(
    ("name", "dtype", "shape", "text", "role"),
    [
        ("hidden_states", "bfloat16", ["batch", "hidden"], "Input", Role.VALUES),
        ("q_proj_weight", "bfloat16", ["hidden", "hidden"], "", Role.WEIGHT),
        ("grad_weight", "float32", ["hidden", "hidden"], "", Role.VALUES),
        ("weight", "bfloat16", ["hidden"], "", Role.NORM_GAIN),
        ("q_norm_weight", "bfloat16", ["num_experts", "hidden"], "RMSNorm weight", Role.NORM_GAIN),
        ("grn_weight", "float32", ["one", "one", "hidden"], "", Role.NORM_GAIN),
        ("norm1_linear_weight", "float32", ["hidden", "hidden"], "", Role.WEIGHT),
        ("proj_bias", "float32", ["hidden"], "", Role.BIAS),
        ("rstd2", "float32", ["batch"], "", Role.POSITIVE),
        ("running_var", "float32", ["hidden"], "", Role.POSITIVE),
        ("dt", "float32", ["hidden"], "Step, strictly positive", Role.POSITIVE),
        ("pos_embed", "float32", ["seq_len", "hidden"], "Positional, positive and negative", Role.VALUES),
        ("attn_weights", "bfloat16", ["seq_len", "seq_len"], "", Role.PROBABILITIES),
        ("p", "float32", ["seq_len", "seq_len"], "Softmax output of the forward pass", Role.PROBABILITIES),
        ("router_logits", "float32", ["batch", "num_experts"], "Before the softmax", Role.VALUES),
        ("scores", "float32", ["batch", "num_experts"], "Scores after sigmoid", Role.UNIT_INTERVAL),
        ("cos", "bfloat16", ["seq_len", "hidden"], "", Role.COSINES),
        ("rope_sin", "bfloat16", ["seq_len", "hidden"], "", Role.SINES),
        ("inv_freq", "float32", ["hidden"], "", Role.FREQUENCIES),
        ("A", "float16", ["batch", "hidden"], "", Role.VALUES),
        ("A", "float32", ["hidden"], "State matrix, diagonal", Role.DECAY),
        ("A_log", "float32", ["hidden"], "", Role.DECAY),
        ("attention_mask", "bfloat16", ["batch", "seq_len", "seq_len"], "", Role.CAUSAL_MASK),
        ("attention_mask", "bfloat16", ["batch", "seq_len"], "", Role.BINARY_MASK),
        ("pad_mask", "float32", ["batch", "seq_len"], "Additive, -inf where padded", Role.ADDITIVE_MASK),
        ("dropout_mask", "bool", ["batch", "seq_len"], "", Role.KEEP_MASK),
        ("flags", "bool", ["batch"], "", Role.BITS),
        ("w", "float8_e4m3fn", ["hidden", "hidden"], "", Role.QUANTISED_WEIGHT),
        ("w", "float4_e2m1fn_x2", ["hidden", "hidden"], "", Role.PACKED),
        ("w_scale", "float8_e8m0fnu", ["hidden"], "", Role.PACKED),
        ("x", "int8", ["batch", "hidden"], "", Role.LEVELS),
        ("kv_indptr", "int32", ["batch_plus_1"], "", Role.OFFSETS),
        ("cu_seqlens", "int32", ["batch_plus_1"], "", Role.OFFSETS),
        ("seq_lens", "int32", ["batch"], "", Role.LENGTHS),
        ("input_ids", "int64", ["batch", "seq_len"], "", Role.INDICES),
        ("topk_ids", "int64", ["num_tokens", "num_experts_per_tok"], "", Role.DISTINCT_INDICES),
        ("counter", "int32", ["batch"], "", Role.INDICES),
    ],
)
def test_an_input_is_taken_for_what_its_name_and_description_say(
    name: str, dtype: str, shape: list[str], text: str, role: Role
) -> None:
    assert role_of(name, dtype, shape, text) is role


@pytest.mark.parametrize(
    ("name", "shape", "below"),
    [
        ("input_ids", ["batch", "seq_len"], 500),
        ("labels", ["batch"], 500),
        ("selected_experts", ["num_tokens", "num_experts_per_tok"], 8),
        ("kv_indices", ["num_kv_indices"], 40),
        ("position_ids", ["batch", "seq_len"], 16),
        ("token_indices", ["num_kv_indices"], 12),
        ("batch_idx", ["num_tokens"], 2),
        ("whatever_index", ["num_tokens"], 1),
        ("kv_indptr", ["batch_plus_1"], 24),
        ("qo_indptr", ["batch_plus_1"], 19),
        ("cu_seqlens", ["batch_plus_1"], 19),
        ("kv_len", ["batch"], 25),
    ],
)
def test_an_index_stays_within_what_it_indexes(name: str, shape: list[str], below: int) -> None:
    definition = Definition.model_validate(definition_of([(name, "int32", shape, "")]))
    assert guess(name, definition.inputs[name], definition, AXES).below == below


def test_a_constraint_says_where_offsets_end() -> None:
    given = definition_of([("indptr", "int32", ["batch_plus_1"], "")], ["num_tokens == indptr[-1].item()"])
    definition = Definition.model_validate(given)
    assert guess("indptr", definition.inputs["indptr"], definition, AXES).below == 12


def made(write_problem: Any, *inputs: Case) -> dict[str, torch.Tensor]:
    def change(definition: dict[str, Any], workload: dict[str, Any]) -> None:
        definition.clear()
        definition.update(definition_of(list(inputs)))
        workload.update(axes={}, inputs={case[0]: {"type": "random"} for case in inputs})

    problem = load_problem(write_problem(change))
    factory = InputFactory(problem, "cpu")
    first = factory.make(problem.workloads[0], torch.Generator().manual_seed(3))
    again = factory.make(problem.workloads[0], torch.Generator().manual_seed(3))
    assert all(torch.equal(first[name].float(), again[name].float()) for name in first), "content follows the seed"
    return first


def test_cosines_and_sines_are_of_one_angle(write_problem: Any) -> None:
    inputs: list[Case] = [(name, "float32", ["batch", "seq_len", "hidden"], "") for name in ("sin", "x", "cos")]
    content = made(write_problem, *inputs)
    assert torch.allclose(content["cos"] ** 2 + content["sin"] ** 2, torch.ones(2, 16, 32), atol=1e-5)
    assert content["cos"].min() < -0.9


def test_masks_leave_something_of_every_row(write_problem: Any) -> None:
    square, row = ["batch", "seq_len", "seq_len"], ["batch", "seq_len"]
    content = made(
        write_problem,
        ("causal_mask", "bfloat16", square, ""),
        ("pad_mask", "float32", row, "additive"),
        ("x_mask", "float32", row, ""),
        ("key_mask", "bool", row, "True=masked"),
        ("drop_mask", "bool", ["vocab_size"], "True=kept"),
    )
    causal = content["causal_mask"]
    assert (causal[:, 0, 1:] == torch.finfo(torch.bfloat16).min).all() and (causal[:, -1] == 0).all()
    assert set(content["pad_mask"].unique().tolist()) == {0.0, torch.finfo(torch.float32).min}
    assert (content["pad_mask"][:, 0] == 0).all()
    assert (content["x_mask"][:, 0] == 1).all() and 0.0 in content["x_mask"]
    assert not content["key_mask"][:, 0].any() and content["key_mask"].any()
    assert 0.8 < content["drop_mask"].float().mean() < 0.97


def test_indices_are_valid_distinct_and_offsets_rise_to_their_total(write_problem: Any) -> None:
    content = made(
        write_problem,
        ("kv_indptr", "int32", ["batch_plus_1"], ""),
        ("kv_indices", "int32", ["num_kv_indices"], ""),
        ("topk_idx", "int64", ["num_tokens", "num_experts_per_tok"], ""),
        ("seq_lens", "int32", ["num_tokens"], ""),
        ("q", "int8", ["batch", "vocab_size"], ""),
    )
    offsets = content["kv_indptr"].tolist()
    assert offsets[0] == 0 and offsets[-1] == 24 and offsets[0] < offsets[1] < offsets[2]
    assert content["kv_indices"].unique().numel() == 24 and content["kv_indices"].max() < 40
    assert (content["topk_idx"][:, 0] != content["topk_idx"][:, 1]).all() and content["topk_idx"].max() < 8
    assert content["seq_lens"].min() >= 1 and content["seq_lens"].max() <= 16
    assert content["q"].min() < -100 and content["q"].max() > 100


Within = Callable[[torch.Tensor], Any]


@pytest.mark.parametrize(
    ("name", "text", "holds"),
    [
        ("probs", "", lambda t: torch.allclose(t.sum(-1), torch.ones(16), atol=1e-5)),
        ("variance", "", lambda t: t.min() >= 0.5),
        ("gate", "sigmoid output", lambda t: t.min() >= 0 and t.max() <= 1),
        ("A_cumsum", "", lambda t: (t.diff(dim=-1) <= 0).all() and t.max() <= 0),
        ("A_log", "", lambda t: t.max() <= -1),
        ("inv_freq", "", lambda t: t[0, 0] == 1 and (t.diff(dim=-1) < 0).all()),
        ("conv_weight", "", lambda t: t.abs().max() <= (3 / 32) ** 0.5),
    ],
)
def test_content_is_what_its_role_asks_for(write_problem: Any, name: str, text: str, holds: Within) -> None:
    assert holds(made(write_problem, (name, "float32", ["seq_len", "hidden"], text))[name])


def test_a_quantised_weight_fills_its_range_and_its_scale_carries_the_fan_in(write_problem: Any) -> None:
    content = made(
        write_problem,
        ("gemm_weights", "float8_e4m3fn", ["num_experts", "vocab_size", "hidden"], ""),
        ("gemm_weights_scale", "float32", ["num_experts", "vocab_size"], ""),
        ("x_scale", "float32", ["num_tokens"], ""),
    )
    assert content["gemm_weights"].float().std().item() == pytest.approx(1, abs=0.05)
    assert content["gemm_weights_scale"].mean().item() == pytest.approx(32**-0.5, rel=0.05)
    assert content["x_scale"].min() >= 0.5 and content["x_scale"].max() <= 1.5


def test_a_scalar_epsilon_is_small_and_a_scale_above_zero() -> None:
    definition = Definition.model_validate(definition_of([("eps", "float32", [], ""), ("sm_scale", "float32", [], "")]))
    specs = {name: spec.model_copy(update={"shape": None}) for name, spec in definition.inputs.items()}
    assert guess("eps", specs["eps"], definition, AXES).role is Role.EPSILON
    assert guess("sm_scale", specs["sm_scale"], definition, AXES).role is Role.POSITIVE
