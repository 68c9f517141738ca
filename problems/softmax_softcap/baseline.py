"""Soft-capped softmax: the cap in place on one single-precision temporary, then PyTorch's softmax."""

import torch


@torch.no_grad()
def run(scores: torch.Tensor, scale: float, cap: float, probs: torch.Tensor) -> None:
    capped = scores.float().mul_(scale / cap).tanh_().mul_(cap)
    probs.copy_(torch.softmax(capped, dim=-1))
