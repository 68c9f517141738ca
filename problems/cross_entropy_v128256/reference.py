"""Cross-entropy per token in single precision."""

import torch


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """Logits whose spread and offset differ from row to row; in half of the rows the target stands out."""
    tokens, vocab = axes_and_scalars["tokens"], axes_and_scalars["vocab"]
    spread = torch.rand(tokens, 1, device=device) * 3 + 1
    offset = torch.randn(tokens, 1, device=device) * 4
    logits = torch.randn(tokens, vocab, device=device).mul_(spread).add_(offset)
    targets = torch.randint(0, vocab, (tokens,), device=device)
    known = (torch.rand(tokens, 1, device=device) < 0.5).float() * 16
    logits.scatter_add_(1, targets[:, None], known)
    return {"logits": logits.to(torch.bfloat16), "targets": targets}


@torch.no_grad()
def run(logits: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    values = logits.float()
    lse = torch.logsumexp(values, dim=-1)
    return lse - values.gather(1, targets[:, None]).squeeze(1), lse
