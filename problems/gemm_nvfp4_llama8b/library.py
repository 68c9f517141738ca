"""cuBLASLt's NVFP4 product (Blackwell); on a CPU, oneDNN's product of decoded operands."""

import torch
import torch.nn.functional as F

E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)


def _decoded(packed: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    codes = packed.view(torch.uint8)
    codes = torch.stack((codes & 15, codes >> 4), dim=-1).flatten(-2)
    return torch.tensor(E2M1)[codes.int()] * scale.float().repeat_interleave(16, dim=-1)


def _tiled(scale: torch.Tensor) -> torch.Tensor:
    """Row-major scales in the order that Blackwell reads: tiles of 128 rows by 4, in them rows 32 apart side by side."""
    rows, groups = scale.shape
    padded = F.pad(scale.view(torch.uint8), (0, -groups % 4, 0, -rows % 128))
    tiles = padded.view(padded.shape[0] // 128, 4, 32, padded.shape[1] // 4, 4).permute(0, 3, 2, 1, 4)
    return tiles.contiguous().view(-1).view(scale.dtype)


@torch.no_grad()
def run(
    a: torch.Tensor,
    a_scale: torch.Tensor,
    weight: torch.Tensor,
    weight_scale: torch.Tensor,
    alpha: float,
    c: torch.Tensor,
) -> None:
    if not a.is_cuda:
        c.copy_((_decoded(a, a_scale) @ _decoded(weight, weight_scale).t()).mul_(alpha))
        return
    if torch.cuda.is_available() and torch.cuda.get_device_capability(a.device)[0] < 10:
        raise RuntimeError("cuBLASLt multiplies NVFP4 operands on Blackwell only; this GPU has no FP4")
    product = torch._scaled_mm(
        a, weight.t(), _tiled(a_scale), _tiled(weight_scale), out_dtype=torch.bfloat16
    )
    torch.mul(product, alpha, out=c)
