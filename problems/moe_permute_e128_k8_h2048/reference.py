"""Dispatch of tokens to experts: a stable sort of all choices by expert."""

import torch


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """Experts of very unlike popularity, some without a token; hidden states whose scale differs from row to row."""
    tokens, experts, top_k, hidden = (axes_and_scalars[name] for name in ("tokens", "experts", "top_k", "hidden"))
    row_scale = torch.exp2(torch.rand(tokens, 1, device=device) * 4 - 2)
    # The same popularities always, of other experts each time: how many experts are in use belongs to the workload.
    share = (torch.randperm(experts, device=device) + 0.5) / experts
    popularity = torch.special.ndtri(share) * 1.5
    noise = -torch.log(-torch.log(torch.rand(tokens, experts, device=device).clamp(1e-9, 1 - 1e-7)))
    return {
        "x": (torch.randn(tokens, hidden, device=device) * row_scale).to(torch.bfloat16),
        "expert_ids": (popularity + noise).topk(top_k, dim=1).indices.int(),
    }


@torch.no_grad()
def run(
    x: torch.Tensor, expert_ids: torch.Tensor, experts: int = 128
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    tokens, top_k = expert_ids.shape
    chosen = expert_ids.flatten().long()
    order = torch.argsort(chosen, stable=True)
    positions = torch.empty_like(order)
    positions[order] = torch.arange(tokens * top_k, device=x.device)
    # How many choices name an expert below e, for e from 0 to 128.
    expert_offsets = torch.searchsorted(chosen[order], torch.arange(experts + 1, device=x.device))
    return x[order // top_k], expert_offsets.int(), positions.view(tokens, top_k).int()
