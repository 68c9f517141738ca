"""Operands scaled block by block, then the vendor library's product: in bfloat16 on GPUs, single precision elsewhere.

Scaled operands have more bits than bfloat16, so each is rounded once there; the error stays within the tolerance.
"""

import torch

BLOCK = 128


@torch.no_grad()
def run(
    a: torch.Tensor, a_scale: torch.Tensor, weight: torch.Tensor, weight_scale: torch.Tensor, c: torch.Tensor
) -> None:
    dtype = torch.bfloat16 if a.is_cuda else torch.float32
    (m, k), n = a.shape, weight.shape[0]
    rows = a.to(dtype).view(m, -1, BLOCK).mul_(a_scale.to(dtype)[:, :, None]).view(m, k)
    tiles = weight_scale.to(dtype).repeat_interleave(BLOCK, dim=0)[:n]
    columns = weight.to(dtype).view(n, -1, BLOCK).mul_(tiles[:, :, None]).view(n, k)
    if dtype == c.dtype:
        torch.mm(rows, columns.t(), out=c)
    else:
        c.copy_(torch.mm(rows, columns.t()))
