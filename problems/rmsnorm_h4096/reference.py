"""RMSNorm in single precision, rounded once at the end."""

import torch

EPSILON = 1e-5


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """Rows of unlike scale, so that skipping the reduction shows; gains near one."""
    tokens, hidden = axes_and_scalars["tokens"], axes_and_scalars["hidden"]
    # Log-uniform over 1/16 .. 16: hidden states grow by orders of magnitude through a network's layers.
    row_scale = torch.exp2(torch.rand(tokens, 1, device=device) * 8 - 4)
    x = torch.randn(tokens, hidden, device=device).mul_(row_scale)
    weight = torch.randn(hidden, device=device).mul_(0.2).add_(1.0)
    return {"x": x.to(torch.bfloat16), "weight": weight.to(torch.bfloat16)}


@torch.no_grad()
def run(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    values = x.float()
    inverse_rms = torch.rsqrt(values.square().mean(dim=-1, keepdim=True) + EPSILON)
    return (values * inverse_rms * weight.float()).to(torch.bfloat16)
