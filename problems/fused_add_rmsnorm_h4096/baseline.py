"""Residual addition straight into its output, then PyTorch's fused RMSNorm."""

import torch
import torch.nn.functional as F

EPSILON = 1e-5


@torch.no_grad()
def run(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, y: torch.Tensor, residual_out: torch.Tensor
) -> None:
    torch.add(x, residual, out=residual_out)
    y.copy_(F.rms_norm(residual_out, (x.shape[-1],), weight, EPSILON))
