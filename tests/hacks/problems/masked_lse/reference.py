"""Log-sum-exp, argmax and any over the unmasked scores of a row; rows without any are the point of it."""

import torch


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """A third of the rows has no score at all, the others keep about half of theirs. Scores of a row are distinct."""
    rows, cols = axes_and_scalars["rows"], axes_and_scalars["cols"]
    scores = torch.randn(rows, cols, device=device) * 4
    mask = torch.rand(rows, cols, device=device) < 0.5
    mask &= torch.rand(rows, 1, device=device) < 0.67
    return {"scores": scores, "mask": mask}


@torch.no_grad()
def run(scores: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    kept = scores.masked_fill(~mask, float("-inf"))
    found = mask.any(dim=-1)
    best = torch.where(found, kept.argmax(dim=-1), -1).to(torch.int32)
    return torch.logsumexp(kept, dim=-1), best, found
