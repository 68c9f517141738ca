"""RMSNorm with PyTorch's own fused operator, in destination-passing style."""

import torch
import torch.nn.functional as F

EPSILON = 1e-5


@torch.no_grad()
def run(x: torch.Tensor, weight: torch.Tensor, y: torch.Tensor) -> None:
    # The operator has no out= form; the copy still costs less than any composition of out= operators.
    y.copy_(F.rms_norm(x, (x.shape[-1],), weight, EPSILON))
