"""Scales by one reduction, codes by one binary search over e2m1's midpoints, in place where PyTorch allows it."""

import torch

# What a magnitude has to exceed for codes 1 to 7. Where the midpoint itself rounds up to an even code, the number just
# below it: bucketize counts what is strictly smaller.
_ABOVE = (0.25, 0.7499999403953552, 1.25, 1.7499998807907104, 2.5, 3.499999761581421, 5.0)
_EDGES: dict[torch.device, torch.Tensor] = {}


@torch.no_grad()
def run(x: torch.Tensor, global_scale: float, q: torch.Tensor, scale: torch.Tensor) -> None:
    if x.device not in _EDGES:
        _EDGES[x.device] = torch.tensor(_ABOVE, device=x.device)
    tokens, width = x.shape
    groups = x.view(tokens, width // 16, 16)
    largest = groups.abs().amax(dim=2).float()
    scale.copy_(largest.mul_(global_scale / 6.0).clamp_(max=448.0))
    divisor = scale.float()
    divisor.masked_fill_(divisor == 0, float("inf"))  # a block too small for any scale becomes zero
    scaled = (groups.float() * global_scale).div_(divisor[:, :, None]).view(tokens, width)
    negative = scaled < 0
    codes = torch.bucketize(scaled.abs_(), _EDGES[x.device], out_int32=True).to(torch.uint8)
    codes.add_(negative, alpha=8)
    torch.bitwise_or(codes[:, 0::2], codes[:, 1::2] << 4, out=q.view(torch.uint8))
