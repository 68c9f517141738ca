"""The vendor library's matrix product, written into the output."""

import torch


@torch.no_grad()
def run(a: torch.Tensor, weight: torch.Tensor, c: torch.Tensor) -> None:
    torch.mm(a, weight.t(), out=c)
