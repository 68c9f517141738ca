"""LayerNorm without affine parameters and modulation, in single precision, rounded once at the end."""

import torch

EPSILON = 1e-6


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """Tokens of unlike mean and scale, so that skipping either reduction shows; moderate modulation."""
    batch, seq, hidden = (axes_and_scalars[name] for name in ("batch", "seq", "hidden"))
    token_scale = torch.exp2(torch.rand(batch, seq, 1, device=device) * 6 - 3)
    token_mean = torch.randn(batch, seq, 1, device=device)
    x = torch.randn(batch, seq, hidden, device=device).add_(token_mean).mul_(token_scale)
    scale = torch.randn(batch, hidden, device=device).mul_(0.3)
    shift = torch.randn(batch, hidden, device=device).mul_(0.5)
    return {name: value.to(torch.bfloat16) for name, value in (("x", x), ("scale", scale), ("shift", shift))}


@torch.no_grad()
def run(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    values = x.float()
    centred = values - values.mean(dim=-1, keepdim=True)
    inverse_deviation = torch.rsqrt(centred.square().mean(dim=-1, keepdim=True) + EPSILON)
    gain, offset = 1.0 + scale.float(), shift.float()
    return (centred * inverse_deviation * gain[:, None, :] + offset[:, None, :]).to(torch.bfloat16)
