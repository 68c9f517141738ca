"""Rotary embedding of queries and keys in single precision, rounded once at the end."""

import torch

THETA = 500000.0
MAX_POSITION = 131072


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """Tables of the angles of consecutive positions that start anywhere in the model's context."""
    tokens, half_dim = axes_and_scalars["tokens"], axes_and_scalars["half_dim"]
    start = torch.randint(0, MAX_POSITION - tokens, (1,), device=device)
    positions = (start + torch.arange(tokens, device=device)).double()
    channels = torch.arange(half_dim, device=device, dtype=torch.float64)
    angles = positions[:, None] * THETA ** (-channels / half_dim)
    return {"cos_table": angles.cos().float(), "sin_table": angles.sin().float()}


@torch.no_grad()
def run(
    q: torch.Tensor, k: torch.Tensor, cos_table: torch.Tensor, sin_table: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    cos, sin = cos_table[:, None, :], sin_table[:, None, :]

    def rotate(heads: torch.Tensor) -> torch.Tensor:
        low, high = heads.float().chunk(2, dim=-1)
        return torch.cat((low * cos - high * sin, high * cos + low * sin), dim=-1).to(torch.bfloat16)

    return rotate(q), rotate(k)
