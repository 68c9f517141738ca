"""For each problem, results of a kernel that leaves out a part that costs; with careless inputs it would pass."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from shortcuts_serving import SERVING

Tensors = dict[str, torch.Tensor]


def _rows(values: torch.Tensor) -> torch.Tensor:
    return values.float().unsqueeze(-1)


def _adamw(i: Tensors) -> Tensors:
    """No bias correction and no decay."""
    first = i["beta1"] * i["exp_avg"] + (1 - i["beta1"]) * i["grad"].float()
    return {"param_out": i["param"] - i["lr"] * first / (i["exp_avg_sq"].sqrt() + i["eps"])}


def _attention_backward(i: Tensors) -> Tensors:
    """No subtraction of the rows' dout · out."""
    q, k, v, dout = (i[name].float().transpose(1, 2) for name in ("q", "k", "v", "dout"))
    k, v = (t.repeat_interleave(4, dim=1) for t in (k, v))
    probs = torch.exp(q @ k.mT * 128**-0.5 - i["lse"].unsqueeze(-1)).tril()
    return {"dq": ((probs * (dout @ v.mT) * 128**-0.5) @ k).transpose(1, 2)}


def _layernorm_backward(i: Tensors) -> Tensors:
    """No subtraction of the gradient's mean."""
    normed, weighted = (i["x"] - _rows(i["mean"])) * _rows(i["rstd"]), i["dy"] * i["weight"]
    return {"dx": (weighted - normed * (weighted * normed).mean(-1, keepdim=True)) * _rows(i["rstd"])}


def _qkv(i: Tensors) -> Tensors:
    """No rotation."""
    heads = (i["x"].float() @ i["qkv_weight"].float().t()).unflatten(-1, (-1, 128))
    return {"k": F.rms_norm(heads[:, -16:-8], (128,), i["k_norm_weight"].float(), 1e-6)}


def _mean_pool(i: Tensors) -> Tensors:
    """The first token for all of its sequence."""
    return {"embedding": F.normalize(i["states"].float()[i["indptr"][:-1].long()], dim=-1)}


def _swiglu_backward(i: Tensors) -> Tensors:
    """The gate as if its sigmoid were constant."""
    gate, up = i["gate_up"].float().chunk(2, -1)
    gated = torch.sigmoid(gate) * i["dy"].float()
    return {"dgate_up": torch.cat((gated * up, gated * gate), -1)}


def _geglu(i: Tensors) -> Tensors:
    """No bias."""
    value, gate = i["x"].float().chunk(2, -1)
    return {"y": value * F.gelu(gate)}


def _mlp(i: Tensors) -> Tensors:
    """ReLU for SiLU."""
    gate, up = (i["x"].float() @ i["gate_up_weight"].float().t()).chunk(2, -1)
    return {"y": torch.relu(gate) * up}


def _swiglu(i: Tensors) -> Tensors:
    gate, up = i["gate_up"].chunk(2, -1)
    return {"y": torch.relu(gate) * up}


SHORTCUTS: dict[str, Callable[[Tensors], Tensors]] = {
    **SERVING,
    "adamw_step": _adamw,
    "bias_residual_layernorm_h1024": lambda i: {
        "y": F.layer_norm(i["x"].float() + i["residual"].float(), (1024,), i["gamma"].float(), i["beta"].float()),
    },
    "causal_conv1d_silu_d5376": lambda i: {"y": F.silu(i["x"].float() * i["weight"].float()[:, -1] + i["bias"])},
    "conv3x3_nhwc": lambda i: {"y": i["x"].float() @ i["weight"].float()[:, 1, 1].t() + i["bias"]},
    "cross_entropy_backward_v151936": lambda i: {"dlogits": torch.exp(i["logits"].float() - _rows(i["lse"]))},
    "cross_entropy_v128256": lambda i: {"lse": i["logits"].amax(-1).float() + 2.0},
    "embedding_scale_rmsnorm_h1152": lambda i: {"y": i["table"][i["ids"]].float() * 34 * (1 + i["weight"].float())},
    "fused_add_rmsnorm_h4096": lambda i: {"y": (i["x"] + i["residual"]) * i["weight"] * 2**-0.5},
    "geglu_bias_i5120": _geglu,
    "gqa_attention_backward_h32_kv8_d128": _attention_backward,
    "groupnorm_silu_nchw": lambda i: {
        "y": F.silu(i["x"].float() * i["weight"].float()[:, None, None] + i["bias"].float()[:, None, None]),
    },
    "layernorm_backward_h1024": _layernorm_backward,
    "layernorm_modulation_h3072": lambda i: {"y": i["x"] * (1 + i["scale"][:, None]) + i["shift"][:, None]},
    "mamba2_scan_h80_d64_n128": lambda i: {"y": i["x"].float() * _rows(i["d"])},
    "mean_pool_normalize_h1024": _mean_pool,
    "mlp_gate_up_swiglu": _mlp,
    "qkv_norm_rope_qwen3": _qkv,
    "rmsnorm_backward_h4096": lambda i: {"dx": i["dy"].float() * i["weight"].float() * _rows(i["rstd"])},
    "rmsnorm_h4096": lambda i: {"y": i["x"] * i["weight"]},
    "rope_gqa_h32_kv8_d128": lambda i: {"q_out": i["q"], "k_out": i["k"]},
    "softmax_softcap": lambda i: {"probs": torch.softmax(i["scores"].float() * i["scale"], -1).bfloat16()},
    "swiglu_backward_i14336": _swiglu_backward,
    "swiglu_gate_i14336": _swiglu,
    "topk_softmax_v151936": lambda i: {"probs": torch.softmax(i["logits"].float() / _rows(i["temperature"]), -1)},
}
