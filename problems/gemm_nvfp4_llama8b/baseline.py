"""Operands unpacked to bfloat16, which holds them exactly, then the vendor library's product with its own factor."""

import torch
import torch.nn.functional as F

E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)
_PAIRS: dict[torch.device, torch.Tensor] = {}


def _pairs(device: torch.device) -> torch.Tensor:
    """Both numbers of every byte, so that unpacking is one look-up: bfloat16 [256, 2]."""
    if device not in _PAIRS:
        values = torch.tensor(E2M1, dtype=torch.bfloat16)
        byte = torch.arange(256)
        _PAIRS[device] = torch.stack((values[byte & 15], values[byte >> 4]), dim=-1).to(device)
    return _PAIRS[device]


def _decode(packed: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Packed rows [rows, k / 2] times scales [rows, k / 16] as bfloat16 [rows, k], which holds the products exactly."""
    rows, groups = scale.shape
    pairs = F.embedding(packed.view(torch.uint8).int(), _pairs(packed.device))
    values = pairs.view(rows, groups, 16)
    return values.mul_(scale.to(torch.bfloat16)[:, :, None]).view(rows, groups * 16)


@torch.no_grad()
def run(
    a: torch.Tensor,
    a_scale: torch.Tensor,
    weight: torch.Tensor,
    weight_scale: torch.Tensor,
    alpha: float,
    c: torch.Tensor,
) -> None:
    left, right = _decode(a, a_scale), _decode(weight, weight_scale)
    # beta=0: what c holds is not read. alpha is applied to the sums before they are rounded.
    torch.addmm(c, left, right.t(), beta=0, alpha=alpha, out=c)
