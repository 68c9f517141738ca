"""Symmetric int8 quantisation by row. The content is such that no rounding depends on the order of operations."""

import torch


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """Multiples of a row's power-of-two step, at most 127 of them, one of which is 127: every quotient is exact."""
    rows, cols = axes_and_scalars["rows"], axes_and_scalars["cols"]
    levels = torch.randint(-127, 128, (rows, cols), device=device)
    peak = torch.randint(0, cols, (rows, 1), device=device)
    levels.scatter_(1, peak, 127)
    step = torch.exp2(torch.randint(-8, 9, (rows, 1), device=device).float())
    return {"x": levels.float() * step}


@torch.no_grad()
def run(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scale = x.abs().amax(dim=-1) / 127
    return torch.round(x / scale[:, None]).clamp(-127, 127).to(torch.int8), scale
