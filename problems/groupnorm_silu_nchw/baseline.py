"""PyTorch's fused group normalisation, then SiLU into the output."""

import torch
import torch.nn.functional as F

GROUPS = 32
EPSILON = 1e-6


@torch.no_grad()
def run(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, y: torch.Tensor) -> None:
    torch.ops.aten.silu.out(F.group_norm(x, GROUPS, weight, bias, EPSILON), out=y)
