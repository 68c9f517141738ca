"""Two additions in the output itself, then PyTorch's fused LayerNorm."""

import torch
import torch.nn.functional as F

EPSILON = 1e-12


@torch.no_grad()
def run(
    x: torch.Tensor,
    bias: torch.Tensor,
    residual: torch.Tensor,
    gamma: torch.Tensor,
    beta: torch.Tensor,
    y: torch.Tensor,
) -> None:
    torch.add(x, bias, out=y).add_(residual)
    y.copy_(F.layer_norm(y, (y.shape[-1],), gamma, beta, EPSILON))
