"""One AdamW update in single precision; bias corrections are computed in double precision, as Python numbers are."""

import torch


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """Weights, and gradients with a scale of their own for every 256 neighbours; moments that fit them."""
    size = axes_and_scalars["size"]
    blocks = -(-size // 256)
    scale = torch.exp2(torch.rand(blocks, 1, device=device) * 6 - 13).expand(blocks, 256).reshape(-1)[:size]
    param = torch.randn(size, device=device).mul_(0.02)
    grad = torch.randn(size, device=device).mul_(scale).to(torch.bfloat16)
    exp_avg = torch.randn(size, device=device).mul_(scale).mul_(0.3)
    exp_avg_sq = torch.rand(size, device=device).add_(0.5).mul_(scale).mul_(scale)
    return {"param": param, "grad": grad, "exp_avg": exp_avg, "exp_avg_sq": exp_avg_sq}


@torch.no_grad()
def run(
    param: torch.Tensor,
    grad: torch.Tensor,
    exp_avg: torch.Tensor,
    exp_avg_sq: torch.Tensor,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    step: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    gradient = grad.float()
    first = beta1 * exp_avg + (1 - beta1) * gradient
    second = beta2 * exp_avg_sq + (1 - beta2) * gradient.square()
    mean = first / (1 - beta1**step)
    deviation = (second / (1 - beta2**step)).sqrt()
    updated = param * (1 - lr * weight_decay) - lr * mean / (deviation + eps)
    return updated, first, second, updated.to(torch.bfloat16)
