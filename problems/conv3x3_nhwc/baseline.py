"""The library's convolution on channels-last views, which it takes as they lie in memory."""

import torch
import torch.nn.functional as F


@torch.no_grad()
def run(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, y: torch.Tensor) -> None:
    mixed = F.conv2d(x.permute(0, 3, 1, 2), weight.permute(0, 3, 1, 2), bias, padding=1)
    y.copy_(mixed.permute(0, 2, 3, 1))
