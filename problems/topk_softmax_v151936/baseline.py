"""Top-k in the logits' own type for the least kept value, then mask, temperature and softmax in place in the output."""

import torch

MAX_K = 1024


@torch.no_grad()
def run(logits: torch.Tensor, temperature: torch.Tensor, top_k: torch.Tensor, probs: torch.Tensor) -> None:
    largest = torch.topk(logits, MAX_K, dim=-1).values  # sorted: the k-th is at k - 1
    least_kept = largest.gather(1, (top_k.long() - 1).unsqueeze(1))
    torch.div(logits, temperature.unsqueeze(1), out=probs)
    probs.masked_fill_(logits < least_kept, float("-inf"))
    torch.softmax(probs, dim=-1, out=probs)
