"""Soft-capped softmax in single precision, rounded once at the end."""

import torch


@torch.no_grad()
def run(scores: torch.Tensor, scale: float, cap: float) -> torch.Tensor:
    capped = cap * torch.tanh(scores.float() * (scale / cap))
    return torch.softmax(capped, dim=-1).to(torch.bfloat16)
