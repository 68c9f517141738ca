"""Residual addition and RMSNorm; the sum is rounded to bfloat16 before it is normalised, as it is stored."""

import torch

EPSILON = 1e-5


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """A residual stream whose scale differs from row to row, a block's output of about its size, gains near one."""
    tokens, hidden = axes_and_scalars["tokens"], axes_and_scalars["hidden"]
    row_scale = torch.exp2(torch.rand(tokens, 1, device=device) * 8 - 4)
    x = torch.randn(tokens, hidden, device=device).mul_(row_scale)
    residual = torch.randn(tokens, hidden, device=device).mul_(row_scale)
    weight = torch.randn(hidden, device=device).mul_(0.2).add_(1.0)
    return {
        "x": x.to(torch.bfloat16),
        "residual": residual.to(torch.bfloat16),
        "weight": weight.to(torch.bfloat16),
    }


@torch.no_grad()
def run(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    residual_out = (x.float() + residual.float()).to(torch.bfloat16)
    values = residual_out.float()
    inverse_rms = torch.rsqrt(values.square().mean(dim=-1, keepdim=True) + EPSILON)
    return (values * inverse_rms * weight.float()).to(torch.bfloat16), residual_out
