"""Cross-entropy through PyTorch's fused log-softmax; the log-sum-exp follows from the target's entry."""

import torch


@torch.no_grad()
def run(logits: torch.Tensor, targets: torch.Tensor, loss: torch.Tensor, lse: torch.Tensor) -> None:
    index = targets.unsqueeze(1)
    log_probs = torch.log_softmax(logits, dim=-1, dtype=torch.float32)
    torch.neg(log_probs.gather(1, index).squeeze(1), out=loss)
    torch.add(loss, logits.gather(1, index).squeeze(1), out=lse)
