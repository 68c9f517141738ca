"""Gradient of cross-entropy with respect to the logits in single precision, rounded once at the end."""

import torch


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """Logits of unlike spread and offset per row, targets that stand out in half of the rows, weights of either sign."""
    tokens, vocab = axes_and_scalars["tokens"], axes_and_scalars["vocab"]
    spread = torch.rand(tokens, 1, device=device) * 3 + 1
    offset = torch.randn(tokens, 1, device=device) * 4
    logits = torch.randn(tokens, vocab, device=device).mul_(spread).add_(offset)
    targets = torch.randint(0, vocab, (tokens,), device=device)
    known = (torch.rand(tokens, 1, device=device) < 0.5).float() * 16
    logits.scatter_add_(1, targets[:, None], known)
    logits = logits.to(torch.bfloat16)
    sign = torch.randint(0, 2, (tokens,), device=device) * 2.0 - 1.0
    dloss = sign * torch.exp2(torch.rand(tokens, device=device) * 3 - 2)
    return {"logits": logits, "targets": targets, "lse": torch.logsumexp(logits.float(), dim=-1), "dloss": dloss}


@torch.no_grad()
def run(logits: torch.Tensor, targets: torch.Tensor, lse: torch.Tensor, dloss: torch.Tensor) -> torch.Tensor:
    gradient = torch.exp(logits.float() - lse[:, None])
    gradient.scatter_add_(1, targets[:, None], -torch.ones_like(lse)[:, None])
    return (gradient * dloss[:, None]).to(torch.bfloat16)
