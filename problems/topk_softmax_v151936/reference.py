"""Softmax over the logits that are at least the k-th largest of their row, in single precision."""

import torch

MAX_K = 1024


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """Logits of unlike spread and offset per row; k from greedy to a thousand; moderate temperatures."""
    batch, vocab = axes_and_scalars["batch"], axes_and_scalars["vocab"]
    spread = torch.rand(batch, 1, device=device) * 3 + 1
    offset = torch.randn(batch, 1, device=device) * 4
    logits = torch.randn(batch, vocab, device=device).mul_(spread).add_(offset)
    temperature = torch.rand(batch, device=device) + 0.5
    # Log-uniform over 1 .. 1024: 1 is greedy, 20 to 50 is common, the largest are nearly unfiltered text.
    top_k = torch.exp2(torch.rand(batch, device=device) * 10).round().clamp_(1, MAX_K).to(torch.int32)
    return {"logits": logits.to(torch.bfloat16), "temperature": temperature, "top_k": top_k}


@torch.no_grad()
def run(logits: torch.Tensor, temperature: torch.Tensor, top_k: torch.Tensor) -> torch.Tensor:
    values = logits.float()
    largest = torch.topk(values, MAX_K, dim=-1).values
    least_kept = largest.gather(1, top_k.long()[:, None] - 1)
    kept = values.masked_fill(values < least_kept, float("-inf"))
    return torch.softmax(kept / temperature[:, None], dim=-1)
