"""A stable sort, a search for the experts' borders and one gather into the output."""

import torch


@torch.no_grad()
def run(
    x: torch.Tensor,
    expert_ids: torch.Tensor,
    permuted: torch.Tensor,
    expert_offsets: torch.Tensor,
    positions: torch.Tensor,
) -> None:
    chosen, order = torch.sort(expert_ids.flatten(), stable=True)
    borders = torch.arange(expert_offsets.shape[0], device=x.device, dtype=chosen.dtype)
    torch.searchsorted(chosen, borders, out_int32=True, out=expert_offsets)
    row = torch.arange(order.shape[0], device=x.device, dtype=torch.int32)
    positions.view(-1).index_copy_(0, order, row)
    torch.index_select(x, 0, order // expert_ids.shape[1], out=permuted)
