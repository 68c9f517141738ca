"""Group normalisation and SiLU in single precision, rounded once at the end."""

import torch

GROUPS = 32
EPSILON = 1e-6


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """Groups of unlike mean and scale, so that skipping either reduction or mixing up groups shows."""
    batch, channels, height, width = (axes_and_scalars[name] for name in ("batch", "channels", "height", "width"))
    per_group = (batch, GROUPS, 1, 1, 1)
    x = torch.randn(batch, GROUPS, channels // GROUPS, height, width, device=device)
    x.add_(torch.randn(per_group, device=device)).mul_(torch.exp2(torch.rand(per_group, device=device) * 6 - 3))
    weight = torch.randn(channels, device=device).mul_(0.3).add_(1.0)
    bias = torch.randn(channels, device=device).mul_(0.3)
    x = x.view(batch, channels, height, width)
    return {name: value.to(torch.bfloat16) for name, value in (("x", x), ("weight", weight), ("bias", bias))}


@torch.no_grad()
def run(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    values = x.float().unflatten(1, (GROUPS, -1))
    centred = values - values.mean(dim=(2, 3, 4), keepdim=True)
    inverse_deviation = torch.rsqrt(centred.square().mean(dim=(2, 3, 4), keepdim=True) + EPSILON)
    normed = (centred * inverse_deviation).flatten(1, 2)
    normed = normed * weight.float()[:, None, None] + bias.float()[:, None, None]
    return (normed * torch.sigmoid(normed)).to(torch.bfloat16)
