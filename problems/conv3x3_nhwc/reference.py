"""3 x 3 convolution with bias over channels-last images, accumulated in single precision, rounded once."""

import torch
import torch.nn.functional as F


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """Pixels of unlike scale, so that each tap and each border shows; filters scaled by their fan-in."""
    batch, height, width, c_in, c_out = (
        axes_and_scalars[name] for name in ("batch", "height", "width", "c_in", "c_out")
    )
    pixel_scale = torch.exp2(torch.rand(batch, height, width, 1, device=device) * 4 - 2)
    x = torch.randn(batch, height, width, c_in, device=device).mul_(pixel_scale)
    weight = torch.randn(c_out, 3, 3, c_in, device=device).mul_((9 * c_in) ** -0.5)
    return {"x": x.to(torch.bfloat16), "weight": weight.to(torch.bfloat16)}


@torch.no_grad()
def run(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    images, filters = (t.float().permute(0, 3, 1, 2) for t in (x, weight))
    return F.conv2d(images, filters, bias.float(), padding=1).permute(0, 2, 3, 1).to(torch.bfloat16)
