"""Rotary embedding written straight into the halves of the outputs, without temporaries."""

import torch


@torch.no_grad()
def run(
    q: torch.Tensor,
    k: torch.Tensor,
    cos_table: torch.Tensor,
    sin_table: torch.Tensor,
    q_out: torch.Tensor,
    k_out: torch.Tensor,
) -> None:
    # One dtype throughout keeps the pointwise operators on their fast paths.
    cos, sin = cos_table.to(q.dtype).unsqueeze(1), sin_table.to(q.dtype).unsqueeze(1)
    for heads, out in ((q, q_out), (k, k_out)):
        low, high = heads.chunk(2, dim=-1)
        out_low, out_high = out.chunk(2, dim=-1)
        torch.mul(low, cos, out=out_low).addcmul_(high, sin, value=-1)
        torch.mul(high, cos, out=out_high).addcmul_(low, sin)
