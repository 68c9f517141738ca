"""PyTorch's fused LayerNorm, then one fused multiply-add with the modulation."""

import torch
import torch.nn.functional as F

EPSILON = 1e-6


@torch.no_grad()
def run(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor, y: torch.Tensor) -> None:
    normed = F.layer_norm(x, (x.shape[-1],), eps=EPSILON)
    torch.addcmul(shift.unsqueeze(1), normed, (1.0 + scale).unsqueeze(1), out=y)
