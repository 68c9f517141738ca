"""Embedding lookup, scale and RMSNorm; the scaled embedding is rounded to bfloat16 before it is normalised."""

import torch

SCALE = 34.0  # sqrt(1152) rounded to bfloat16, as the model computes it
EPSILON = 1e-6


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """A table with rows of unlike scale; ids that come again and again for low numbers, as words do."""
    tokens, vocab, hidden = (axes_and_scalars[name] for name in ("tokens", "vocab", "hidden"))
    row_scale = torch.exp2(torch.rand(vocab, 1, device=device) * 4 - 6)
    table = torch.randn(vocab, hidden, device=device).mul_(row_scale).to(torch.bfloat16)
    ids = (torch.rand(tokens, dtype=torch.float64, device=device).pow_(3) * vocab).long()
    weight = torch.randn(hidden, device=device).mul_(0.2)
    return {"ids": ids, "table": table, "weight": weight.to(torch.bfloat16)}


@torch.no_grad()
def run(ids: torch.Tensor, table: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    residual = torch.nn.functional.embedding(ids, table) * SCALE
    values = residual.float()
    inverse_rms = torch.rsqrt(values.square().mean(dim=-1, keepdim=True) + EPSILON)
    return (values * inverse_rms * (1.0 + weight.float())).to(torch.bfloat16), residual
