"""cuBLASLt's scaled product (Hopper, from CUDA 12.9); on a CPU, oneDNN's product of decoded operands."""

import torch
import torch.nn.functional as F

BLOCK = 128


@torch.no_grad()
def run(
    a: torch.Tensor, a_scale: torch.Tensor, weight: torch.Tensor, weight_scale: torch.Tensor, c: torch.Tensor
) -> None:
    m, n = a.shape[0], weight.shape[0]
    if not a.is_cuda:
        rows = a.float() * a_scale.repeat_interleave(BLOCK, dim=1)
        tiles = weight_scale.repeat_interleave(BLOCK, dim=0)[:n].repeat_interleave(BLOCK, dim=1)
        c.copy_(rows @ (weight.float() * tiles).t())
        return
    if torch.cuda.is_available() and torch.cuda.get_device_capability(a.device)[0] != 9:
        raise RuntimeError("cuBLASLt has products with 1x128 and 128x128 scales on Hopper only")
    # It wants rows in sixteens, row scales with the rows contiguous, and tile scales padded to fours along k.
    missing = -m % 16
    if missing:
        a, a_scale = F.pad(a.view(torch.uint8), (0, 0, 0, missing)).view(a.dtype), F.pad(a_scale, (0, 0, 0, missing))
    row_scales = a_scale.t().contiguous().t()
    tile_scales = F.pad(weight_scale, (0, -weight_scale.shape[1] % 4)).t()
    product = torch._scaled_mm(a, weight.t(), row_scales, tile_scales, out_dtype=torch.bfloat16)
    c.copy_(product[:m])
