"""Bias and GEGLU gate in single precision, rounded once at the end."""

import torch
import torch.nn.functional as F


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """A projection whose scale differs from row to row, and a bias large enough to be missed."""
    tokens, packed = axes_and_scalars["tokens"], axes_and_scalars["packed_width"]
    row_scale = torch.exp2(torch.rand(tokens, 1, device=device) * 3 - 1)
    x = torch.randn(tokens, packed, device=device).mul_(row_scale)
    bias = torch.randn(packed, device=device).mul_(0.5)
    return {"x": x.to(torch.float16), "bias": bias.to(torch.float16)}


@torch.no_grad()
def run(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    value, gate = (x.float() + bias.float()).chunk(2, dim=-1)
    return (value * F.gelu(gate)).to(torch.float16)
