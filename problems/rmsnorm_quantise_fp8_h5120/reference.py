"""RMSNorm and quantisation per token, in single precision: the normalised row is not rounded before it is scaled."""

import torch

EPSILON = 1e-6
LARGEST = 448.0  # of e4m3


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """Rows of unlike scale, with a few channels that stand out, others in every row: so every token needs its scale."""
    tokens, hidden = axes_and_scalars["tokens"], axes_and_scalars["hidden"]
    x = torch.randn(tokens, hidden, device=device).mul_(torch.exp2(torch.rand(tokens, 1, device=device) * 8 - 4))
    channel = torch.randint(0, hidden, (tokens, 2), device=device)
    factor = torch.exp2(torch.rand(tokens, 2, device=device) * 4 + 1)
    x.scatter_(1, channel, x.gather(1, channel) * factor)
    weight = torch.randn(hidden, device=device).mul_(0.2).add_(1.0)
    return {"x": x.to(torch.bfloat16), "weight": weight.to(torch.bfloat16)}


@torch.no_grad()
def run(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    values = x.float()
    inverse_rms = torch.rsqrt(values.square().mean(dim=-1, keepdim=True) + EPSILON)
    gained = values * weight.float()
    peak = gained.abs().amax(dim=-1, keepdim=True)
    # The inverse root mean square is in the row and in its scale, so it cancels: codes follow from the gained row alone.
    # The smallest normal number instead of a peak of zero: a row of zeros stays zero.
    unit = peak.clamp(min=torch.finfo(torch.float32).tiny) / LARGEST
    q = (gained / unit).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn)
    return q, (peak * inverse_rms).squeeze(1) / LARGEST
