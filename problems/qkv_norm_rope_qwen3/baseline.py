"""One library product, fused RMSNorm per head, rotary embedding written straight into the halves of the outputs."""

import torch
import torch.nn.functional as F

EPSILON = 1e-6


@torch.no_grad()
def run(
    x: torch.Tensor,
    qkv_weight: torch.Tensor,
    q_norm_weight: torch.Tensor,
    k_norm_weight: torch.Tensor,
    cos_table: torch.Tensor,
    sin_table: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
) -> None:
    head_dim = q.shape[2]
    heads = torch.mm(x, qkv_weight.t()).unflatten(-1, (-1, head_dim))
    queries, keys, values = heads.split((q.shape[1], k.shape[1], v.shape[1]), dim=1)
    v.copy_(values)
    # One dtype throughout keeps the pointwise operators on their fast paths.
    cos, sin = cos_table.to(x.dtype).unsqueeze(1), sin_table.to(x.dtype).unsqueeze(1)
    for part, weight, out in ((queries, q_norm_weight, q), (keys, k_norm_weight, k)):
        low, high = F.rms_norm(part, (head_dim,), weight, EPSILON).chunk(2, dim=-1)
        out_low, out_high = out.chunk(2, dim=-1)
        torch.mul(low, cos, out=out_low).addcmul_(high, sin, value=-1)
        torch.mul(high, cos, out=out_high).addcmul_(low, sin)
