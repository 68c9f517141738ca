"""Shortcuts (see shortcuts.py) for attention over caches, mixtures of experts and quantised problems."""

from collections.abc import Callable

import torch
from suite_kernels import problem

from agentcore.problems.tensors import InputFactory

Tensors = dict[str, torch.Tensor]


def _with(name: str, *outputs: str, **changed: Callable[[Tensors], object]) -> Callable[[Tensors], Tensors]:
    """The reference on inputs some of which are replaced by what a lazy kernel would take for them."""

    def shortcut(inputs: Tensors) -> Tensors:
        own = {**inputs, **{key: make(inputs) for key, make in changed.items()}}
        made = InputFactory(problem(name), "cpu").reference(own)
        return {output: made[output] for output in outputs or made}

    return shortcut


def _pages_in_order(i: Tensors) -> torch.Tensor:
    return torch.arange(i["page_table"].shape[0], dtype=torch.int32)


def _row_mean(scale: str) -> Callable[[Tensors], torch.Tensor]:
    return lambda i: i[scale].float().mean(-1, keepdim=True).to(i[scale].dtype).expand_as(i[scale])


def _row_largest(i: Tensors) -> torch.Tensor:
    return i["x"].abs().amax(1, keepdim=True).expand_as(i["x"])


def _one_scale(i: Tensors) -> Tensors:
    """One scale for the whole batch."""
    scales = _with("rmsnorm_quantise_fp8_h5120", "scale")(i)["scale"]
    return {"scale": scales.amax().expand_as(scales)}


PAGED = (
    "gqa_paged_decode_h32_kv8_d128_ps16",
    "gqa_paged_prefill_h32_kv8_d128_ps1",
    "gqa_paged_prefill_h32_kv8_d128_ps16",
    "mla_paged_decode_h16_ckv512_kpe64",
    "rope_kv_append_ps16",
)
SERVING: dict[str, Callable[[Tensors], Tensors]] = {
    **{name: _with(name, page_table=_pages_in_order) for name in PAGED},
    "gemm_fp8_block128_deepseek_v3": _with("gemm_fp8_block128_deepseek_v3", a_scale=_row_mean("a_scale")),
    "gemm_nvfp4_llama8b": _with("gemm_nvfp4_llama8b", weight_scale=_row_mean("weight_scale")),
    "moe_nvfp4_gated_qwen3_30b": _with("moe_nvfp4_gated_qwen3_30b", x_scale=_row_mean("x_scale")),
    "moe_permute_e128_k8_h2048": lambda i: {"permuted": i["x"].repeat_interleave(8, 0)},
    # Not renormalised.
    "moe_topk_routing_e128_k8": lambda i: {"weights": torch.softmax(i["logits"], -1).topk(8).values},
    # One scale for a row.
    "quantise_nvfp4": _with("quantise_nvfp4", "scale", x=_row_largest),
    "rmsnorm_quantise_fp8_h5120": _one_scale,
    "sliding_window_gqa_h16_kv8_d256": _with("sliding_window_gqa_h16_kv8_d256", window=lambda i: 1 << 20),
    # All sequences as one.
    "varlen_attention_h16_d64": _with(
        "varlen_attention_h16_d64", sequence_offsets=lambda i: i["sequence_offsets"][[0, -1]]
    ),
}
