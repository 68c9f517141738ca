"""A product of e4m3 operands with fine-grained scales, in single precision, rounded once at the end."""

import torch

BLOCK = 128


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """Operands that fill e4m3's range; scales that differ by row, by block and by tile; products of size about one."""
    m, n, k, k_blocks, n_blocks = (axes_and_scalars[name] for name in ("m", "n", "k", "k_blocks", "n_blocks"))
    spread = 112.0  # four deviations reach e4m3's largest number
    row_scale = torch.exp2(torch.rand(m, 1, device=device) * 2 - 1)
    a_scale = row_scale * torch.exp2(torch.rand(m, k_blocks, device=device) * 2 - 1) / spread
    weight_scale = torch.exp2(torch.rand(n_blocks, k_blocks, device=device) * 2 - 1) / (spread * k**0.5)
    return {
        "a": (torch.randn(m, k, device=device) * spread).clamp_(-448, 448).to(torch.float8_e4m3fn),
        "a_scale": a_scale,
        "weight": (torch.randn(n, k, device=device) * spread).clamp_(-448, 448).to(torch.float8_e4m3fn),
        "weight_scale": weight_scale,
    }


@torch.no_grad()
def run(
    a: torch.Tensor, a_scale: torch.Tensor, weight: torch.Tensor, weight_scale: torch.Tensor
) -> torch.Tensor:
    n = weight.shape[0]
    rows = a.float() * a_scale.repeat_interleave(BLOCK, dim=1)
    tiles = weight_scale.repeat_interleave(BLOCK, dim=0)[:n].repeat_interleave(BLOCK, dim=1)
    return (rows @ (weight.float() * tiles).t()).to(torch.bfloat16)
