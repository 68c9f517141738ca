"""Gradients of LayerNorm with gain and bias, all in single precision."""

import torch

EPSILON = 1e-5


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """Rows of unlike mean and scale, and gradients with a mean and a lean along their row: every term of dx counts."""
    tokens, hidden = axes_and_scalars["tokens"], axes_and_scalars["hidden"]

    def per_row(low: float, high: float) -> torch.Tensor:
        return torch.exp2(torch.rand(tokens, 1, device=device) * (high - low) + low)

    x = torch.randn(tokens, hidden, device=device).add_(torch.randn(tokens, 1, device=device)).mul_(per_row(-2, 2))
    mean = x.mean(dim=-1, keepdim=True)
    rstd = torch.rsqrt((x - mean).square().mean(dim=-1, keepdim=True) + EPSILON)
    lean, offset = torch.randn(2, tokens, 1, device=device)
    lean, offset = (value + value.sign() * 0.5 for value in (lean, offset))
    dy = torch.randn(tokens, hidden, device=device).add_(offset).addcmul_(x - mean, lean * rstd).mul_(per_row(-1, 1))
    weight = torch.randn(hidden, device=device).mul_(0.2).add_(1.0)
    return {"dy": dy, "x": x, "weight": weight, "mean": mean.squeeze(1), "rstd": rstd.squeeze(1)}


@torch.no_grad()
def run(
    dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, mean: torch.Tensor, rstd: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    normed = (x - mean[:, None]) * rstd[:, None]
    weighted = dy * weight
    along = (weighted * normed).mean(dim=-1, keepdim=True)
    dx = (weighted - weighted.mean(dim=-1, keepdim=True) - normed * along) * rstd[:, None]
    return dx, (dy * normed).sum(dim=0), dy.sum(dim=0)
