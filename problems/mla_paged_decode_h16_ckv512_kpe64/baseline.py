"""Latent attention as batched products, one batch entry per page, combined per sequence: nothing waits for the device.

PyTorch has no fused kernel for a head of 576 channels. Splitting by page is what a flash-decoding kernel does, and it
needs neither padding to the longest sequence nor a length on the host.
"""

import torch


def _product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """bfloat16 operands, single-precision result: rounding scores to bfloat16 would cost more than the tolerance."""
    if left.is_cuda:
        return torch.bmm(left, right, out_dtype=torch.float32)
    return torch.bmm(left.float(), right.float())


@torch.no_grad()
def run(
    q_latent: torch.Tensor,
    q_rope: torch.Tensor,
    latent_cache: torch.Tensor,
    rope_cache: torch.Tensor,
    page_offsets: torch.Tensor,
    page_table: torch.Tensor,
    last_page_len: torch.Tensor,
    sm_scale: float,
    out: torch.Tensor,
    lse: torch.Tensor,
) -> None:
    batch, heads, size = q_latent.shape
    pages, page_size = page_table.shape[0], latent_cache.shape[1]
    device = q_latent.device
    latent, rope = latent_cache.index_select(0, page_table), rope_cache.index_select(0, page_table)
    counts = page_offsets.diff()
    owner = torch.repeat_interleave(torch.arange(batch, device=device), counts, output_size=pages)
    keys = torch.cat((latent, rope), dim=2)
    queries = torch.cat((q_latent, q_rope), dim=2).index_select(0, owner)
    scores = _product(queries, keys.transpose(1, 2)).mul_(sm_scale)
    filled = torch.full((pages,), page_size, device=device, dtype=torch.int32)
    filled.index_copy_(0, page_offsets[1:].long() - 1, last_page_len)
    beyond = torch.arange(page_size, device=device) >= filled[:, None]
    scores.masked_fill_(beyond[:, None, :], float("-inf"))
    # One shift per sequence and head serves all of its pages.
    largest = torch.full((batch, heads), float("-inf"), device=device)
    largest.scatter_reduce_(0, owner[:, None].expand(-1, heads), scores.amax(dim=2), "amax")
    weights = scores.sub_(largest.index_select(0, owner)[:, :, None]).exp_()
    totals = torch.zeros(batch, heads, device=device).index_add_(0, owner, weights.sum(dim=2))
    partial = _product(weights.to(latent.dtype), latent)
    sums = torch.zeros(batch, heads, size, device=device).index_add_(0, owner, partial)
    out.copy_(sums.div_(totals[:, :, None]))
    torch.add(largest, totals.log_(), out=lse)
