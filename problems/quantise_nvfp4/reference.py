"""NVFP4 quantisation: scales per 16 values, then codes by comparison with the midpoints of e2m1."""

import torch

LARGEST = 6.0  # of e2m1


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """Activations whose scale differs from row to row, with a few channels that stand out, as in trained models."""
    tokens, width = axes_and_scalars["tokens"], axes_and_scalars["width"]
    x = torch.randn(tokens, width, device=device).mul_(torch.exp2(torch.rand(tokens, 1, device=device) * 6 - 4))
    x *= torch.where(torch.rand(width, device=device) < 0.01, 12.0, 1.0)
    return {"x": x.to(torch.bfloat16)}


@torch.no_grad()
def run(x: torch.Tensor, global_scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    groups = x.float().unflatten(1, (-1, 16))
    scale = (groups.abs().amax(dim=2) * (global_scale / LARGEST)).clamp(max=448.0).to(torch.float8_e4m3fn)
    divisor = scale.float()[:, :, None]
    # A block too small for any scale is zero.
    scaled = torch.where(divisor > 0, groups * global_scale / divisor, 0.0)
    size = scaled.abs()
    # Codes 0 to 7 stand for 0, 0.5, 1, 1.5, 2, 3, 4, 6; a midpoint belongs to the even code.
    code = (size > 0.25).byte() + (size >= 0.75) + (size > 1.25) + (size >= 1.75)
    code = code + (size > 2.5) + (size >= 3.5) + (size > 5.0)
    code = (code + 8 * (scaled < 0)).byte().flatten(1)
    packed = code[:, 0::2] | (code[:, 1::2] << 4)
    return packed.contiguous().view(torch.float4_e2m1fn_x2), scale
