"""Softmax over the experts, the largest probabilities, renormalised."""

import torch


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """Logits without ties: in each row a random order of 128 levels that lie apart, moved a little and spread by row."""
    tokens, experts = axes_and_scalars["tokens"], axes_and_scalars["experts"]
    level = torch.rand(tokens, experts, device=device).argsort(dim=1).float()
    # Between two levels there is always a tenth of the distance.
    share = (level + 0.05 + 0.9 * torch.rand(tokens, experts, device=device)) / experts
    spread = torch.exp2(torch.rand(tokens, 1, device=device) * 2 - 1)
    return {"logits": torch.special.ndtri(share.clamp(1e-4, 1 - 1e-4)) * spread + torch.randn(tokens, 1, device=device)}


@torch.no_grad()
def run(logits: torch.Tensor, top_k: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    probabilities = torch.softmax(logits, dim=-1)
    largest, experts = torch.topk(probabilities, top_k, dim=-1)
    return largest / largest.sum(dim=-1, keepdim=True), experts.int()
