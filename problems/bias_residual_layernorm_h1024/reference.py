"""Bias, residual addition and LayerNorm in single precision, rounded once at the end."""

import torch

EPSILON = 1e-12


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """A projection and a residual stream of unlike scales per row, the latter with a mean; no addend is negligible."""
    tokens, hidden = axes_and_scalars["tokens"], axes_and_scalars["hidden"]

    def scaled() -> torch.Tensor:
        return torch.exp2(torch.rand(tokens, 1, device=device) * 4 - 2)

    x = torch.randn(tokens, hidden, device=device).mul_(scaled())
    residual = torch.randn(tokens, hidden, device=device).add_(torch.randn(tokens, 1, device=device)).mul_(scaled())
    made = {
        "x": x,
        "bias": torch.randn(hidden, device=device),
        "residual": residual,
        "gamma": torch.randn(hidden, device=device).mul_(0.2).add_(1.0),
        "beta": torch.randn(hidden, device=device).mul_(0.3),
    }
    return {name: value.to(torch.float16) for name, value in made.items()}


@torch.no_grad()
def run(
    x: torch.Tensor, bias: torch.Tensor, residual: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor
) -> torch.Tensor:
    values = x.float() + bias.float() + residual.float()
    centred = values - values.mean(dim=-1, keepdim=True)
    inverse_deviation = torch.rsqrt(centred.square().mean(dim=-1, keepdim=True) + EPSILON)
    return (centred * inverse_deviation * gamma.float() + beta.float()).to(torch.float16)
