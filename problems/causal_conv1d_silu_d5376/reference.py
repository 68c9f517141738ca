"""Depthwise causal convolution and SiLU in single precision, rounded once at the end."""

import torch


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """Tokens of unlike scale, so that each tap shows."""
    batch, seq, channels = (axes_and_scalars[name] for name in ("batch", "seq", "channels"))
    token_scale = torch.exp2(torch.rand(batch, seq, 1, device=device) * 4 - 1)
    return {"x": torch.randn(batch, seq, channels, device=device).mul_(token_scale).to(torch.bfloat16)}


@torch.no_grad()
def run(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    seq, taps = x.shape[1], weight.shape[1]
    # Before the first token there is nothing: zeros.
    padded = torch.nn.functional.pad(x.float(), (0, 0, taps - 1, 0))
    filters = weight.float()
    total = bias.float()
    for tap in range(taps):
        total = total + padded[:, tap : tap + seq] * filters[:, tap]
    return (total * torch.sigmoid(total)).to(torch.bfloat16)
