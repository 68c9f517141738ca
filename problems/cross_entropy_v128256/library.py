"""PyTorch's own operators for the two outputs: log-sum-exp, and cross-entropy per row."""

import torch
import torch.nn.functional as F


@torch.no_grad()
def run(logits: torch.Tensor, targets: torch.Tensor, loss: torch.Tensor, lse: torch.Tensor) -> None:
    values = logits.float()
    torch.logsumexp(values, dim=-1, out=lse)
    loss.copy_(F.cross_entropy(values, targets, reduction="none"))
