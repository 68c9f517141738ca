"""The library's depthwise convolution over a transposed view, then SiLU into the output."""

import torch
import torch.nn.functional as F


@torch.no_grad()
def run(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, y: torch.Tensor) -> None:
    seq, (channels, taps) = x.shape[1], weight.shape
    mixed = F.conv1d(x.transpose(1, 2), weight.unsqueeze(1), bias, padding=taps - 1, groups=channels)
    torch.ops.aten.silu.out(mixed[..., :seq].transpose(1, 2), out=y)
