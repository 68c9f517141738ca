"""Projection, head norms and rotary embedding with single-precision intermediates, rounded once at the end."""

import torch

THETA = 1000000.0
MAX_POSITION = 32768
EPSILON = 1e-6


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """Hidden states of unlike scale per token, and angles of consecutive positions that start anywhere."""
    tokens, hidden, half_dim = (axes_and_scalars[name] for name in ("tokens", "hidden", "half_dim"))
    token_scale = torch.exp2(torch.rand(tokens, 1, device=device) * 4 - 2)
    x = torch.randn(tokens, hidden, device=device).mul_(token_scale).to(torch.bfloat16)
    start = torch.randint(0, MAX_POSITION - tokens, (1,), device=device)
    positions = (start + torch.arange(tokens, device=device)).double()
    channels = torch.arange(half_dim, device=device, dtype=torch.float64)
    angles = positions[:, None] * THETA ** (-channels / half_dim)
    return {"x": x, "cos_table": angles.cos().float(), "sin_table": angles.sin().float()}


@torch.no_grad()
def run(
    x: torch.Tensor,
    qkv_weight: torch.Tensor,
    q_norm_weight: torch.Tensor,
    k_norm_weight: torch.Tensor,
    cos_table: torch.Tensor,
    sin_table: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    head_dim, kv_heads = q_norm_weight.shape[0], 8
    heads = torch.matmul(x.float(), qkv_weight.float().t()).unflatten(-1, (-1, head_dim))
    q, k, v = heads.split((heads.shape[1] - 2 * kv_heads, kv_heads, kv_heads), dim=1)
    cos, sin = cos_table[:, None, :], sin_table[:, None, :]

    def norm_and_rotate(values: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        normed = values * torch.rsqrt(values.square().mean(dim=-1, keepdim=True) + EPSILON) * weight.float()
        low, high = normed.chunk(2, dim=-1)
        return torch.cat((low * cos - high * sin, high * cos + low * sin), dim=-1).to(torch.bfloat16)

    return norm_and_rotate(q, q_norm_weight), norm_and_rotate(k, k_norm_weight), v.to(torch.bfloat16)
