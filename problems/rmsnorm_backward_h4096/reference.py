"""Gradients of RMSNorm in single precision; dx is rounded once at the end, dweight not at all."""

import torch

EPSILON = 1e-5


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """Rows of unlike scale, and gradients that lean along or against them, so that no term of dx is small."""
    tokens, hidden = axes_and_scalars["tokens"], axes_and_scalars["hidden"]
    row_scale = torch.exp2(torch.rand(tokens, 1, device=device) * 4 - 2)
    x = torch.randn(tokens, hidden, device=device).mul_(row_scale).to(torch.bfloat16)
    rstd = torch.rsqrt(x.float().square().mean(dim=-1) + EPSILON)
    # Gradients independent of x would leave the projection onto x near zero, and a kernel could skip it.
    lean = torch.randn(tokens, 1, device=device)
    lean = lean + lean.sign() * 0.5
    dy = torch.randn(tokens, hidden, device=device).addcmul_(x.float(), lean * rstd[:, None])
    dy *= torch.exp2(torch.rand(tokens, 1, device=device) * 2 - 1)
    weight = torch.randn(hidden, device=device).mul_(0.2).add_(1.0)
    return {"dy": dy.to(torch.bfloat16), "x": x, "weight": weight.to(torch.bfloat16), "rstd": rstd}


@torch.no_grad()
def run(
    dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    gradient, scale = dy.float(), rstd[:, None]
    normed = x.float() * scale
    weighted = gradient * weight.float()
    along = (weighted * normed).mean(dim=-1, keepdim=True)
    dx = (weighted - normed * along) * scale
    return dx.to(torch.bfloat16), (gradient * normed).sum(dim=0)
