"""Sliding-window attention in single precision, a block of queries against the keys it can see, rounded at the end."""

import torch

ROWS_AT_ONCE = 512


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """Queries 2 to 4 times as large as keys, so that few keys decide; values whose scale differs by token."""
    batch, seq, q_heads, kv_heads, head_dim = (
        axes_and_scalars[name] for name in ("batch", "seq", "q_heads", "kv_heads", "head_dim")
    )
    q = torch.randn(batch, seq, q_heads, head_dim, device=device)
    q *= torch.exp2(torch.rand(batch, seq, q_heads, 1, device=device) + 1)
    k = torch.randn(batch, seq, kv_heads, head_dim, device=device)
    v = torch.randn(batch, seq, kv_heads, head_dim, device=device)
    v *= torch.exp2(torch.rand(batch, seq, 1, 1, device=device) * 2 - 1)
    return {name: value.to(torch.bfloat16) for name, value in (("q", q), ("k", k), ("v", v))}


@torch.no_grad()
def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, window: int, sm_scale: float) -> torch.Tensor:
    seq, heads, kv_heads = q.shape[1], q.shape[2], k.shape[2]
    out = torch.empty_like(q)
    for first in range(0, seq, ROWS_AT_ONCE):
        end = min(first + ROWS_AT_ONCE, seq)
        seen = max(0, first - window + 1)
        position = torch.arange(first, end, device=q.device)[:, None]
        key = torch.arange(seen, end, device=q.device)
        hidden = (key > position) | (key <= position - window)
        # (batch, kv_heads, group, rows, head_dim) against (batch, kv_heads, 1, keys, head_dim)
        queries = q[:, first:end].float().transpose(1, 2).unflatten(1, (kv_heads, heads // kv_heads))
        keys = k[:, seen:end].float().transpose(1, 2)[:, :, None]
        values = v[:, seen:end].float().transpose(1, 2)[:, :, None]
        scores = (queries @ keys.transpose(-1, -2) * sm_scale).masked_fill(hidden, float("-inf"))
        attended = torch.softmax(scores, dim=-1) @ values
        out[:, first:end] = attended.flatten(1, 2).transpose(1, 2).to(q.dtype)
    return out
