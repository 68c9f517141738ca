"""A product of NVFP4 operands: decoded exactly, multiplied and summed in single precision, rounded once at the end."""

import torch

# The sixteen numbers of e2m1 by their codes: one sign bit, two of exponent, one of mantissa.
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)


def _decode(packed: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Packed codes [..., k / 2] times scales [..., k / 16] as float32 [..., k]. Exact: at most 6 significant bits."""
    codes = packed.view(torch.uint8)
    codes = torch.stack((codes & 15, codes >> 4), dim=-1).flatten(-2)  # the even channel is the low half of a byte
    values = torch.tensor(E2M1, device=packed.device)[codes.int()]
    return values * scale.float().repeat_interleave(16, dim=-1)


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """Both operands quantised already; see _packed."""
    m, n, k = (axes_and_scalars[name] for name in ("m", "n", "k"))
    a, a_scale = _packed(m, k, device)
    weight, weight_scale = _packed(n, k, device)
    return {"a": a, "a_scale": a_scale, "weight": weight, "weight_scale": weight_scale}


def _packed(rows: int, k: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes of every kind, and scales that differ from row to row and from block to block, around one."""
    codes = torch.randint(0, 256, (rows, k // 2), dtype=torch.uint8, device=device).view(torch.float4_e2m1fn_x2)
    scale = torch.exp2(torch.rand(rows, 1, device=device) * 2 - 1) * (0.5 + torch.rand(rows, k // 16, device=device))
    return codes, scale.to(torch.float8_e4m3fn)


@torch.no_grad()
def run(
    a: torch.Tensor, a_scale: torch.Tensor, weight: torch.Tensor, weight_scale: torch.Tensor, alpha: float
) -> torch.Tensor:
    product = _decode(a, a_scale) @ _decode(weight, weight_scale).t()
    return (product * alpha).to(torch.bfloat16)
