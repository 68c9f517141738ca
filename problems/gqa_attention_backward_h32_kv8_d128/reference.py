"""Gradients of causal grouped-query attention in single precision, one key-value head at a time, rounded at the end."""

import torch


def _scores(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """Scaled, causally masked scores of (..., seq, head_dim) queries and keys, in single precision."""
    seq = q.shape[-2]
    scores = torch.matmul(q.float(), k.float().transpose(-1, -2)) * q.shape[-1] ** -0.5
    future = torch.ones(seq, seq, dtype=torch.bool, device=q.device).triu(1)
    return scores.masked_fill(future, float("-inf"))


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """Queries that favour some keys, gradients of unlike scale per token, and what the forward pass gives for them."""
    batch, seq, q_heads, kv_heads, head_dim = (
        axes_and_scalars[name] for name in ("batch", "seq", "q_heads", "kv_heads", "head_dim")
    )
    group = q_heads // kv_heads
    q = (torch.randn(batch, seq, q_heads, head_dim, device=device) * 1.5).to(torch.bfloat16)
    k = torch.randn(batch, seq, kv_heads, head_dim, device=device).to(torch.bfloat16)
    v = torch.randn(batch, seq, kv_heads, head_dim, device=device).to(torch.bfloat16)
    token_scale = torch.exp2(torch.rand(batch, seq, 1, 1, device=device) * 3 - 1)
    dout = (torch.randn(batch, seq, q_heads, head_dim, device=device) * token_scale).to(torch.bfloat16)
    out = torch.empty_like(q)
    lse = torch.empty(batch, q_heads, seq, device=device)
    for head in range(kv_heads):
        heads = slice(head * group, (head + 1) * group)
        scores = _scores(q[:, :, heads].transpose(1, 2), k[:, :, head].unsqueeze(1))
        lse[:, heads] = torch.logsumexp(scores, dim=-1)
        probs = torch.softmax(scores, dim=-1)
        out[:, :, heads] = torch.matmul(probs, v[:, :, head].unsqueeze(1).float()).transpose(1, 2).to(torch.bfloat16)
    return {"dout": dout, "q": q, "k": k, "v": v, "out": out, "lse": lse}


@torch.no_grad()
def run(
    dout: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor, lse: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    kv_heads, scale = k.shape[2], q.shape[-1] ** -0.5
    group = q.shape[2] // kv_heads
    dq, dk, dv = [], [], []
    for head in range(kv_heads):
        heads = slice(head * group, (head + 1) * group)
        queries, gradients, results = (t[:, :, heads].transpose(1, 2).float() for t in (q, dout, out))
        keys, values = (t[:, :, head].unsqueeze(1).float() for t in (k, v))
        probs = torch.exp(_scores(queries, keys) - lse[:, heads].unsqueeze(-1))
        along = (gradients * results).sum(dim=-1, keepdim=True)
        dscores = probs * (torch.matmul(gradients, values.transpose(-1, -2)) - along) * scale
        dq.append(torch.matmul(dscores, keys))
        dk.append(torch.matmul(dscores.transpose(-1, -2), queries).sum(dim=1))
        dv.append(torch.matmul(probs.transpose(-1, -2), gradients).sum(dim=1))
    return (
        torch.cat(dq, dim=1).transpose(1, 2).to(torch.bfloat16),
        torch.stack(dk, dim=2).to(torch.bfloat16),
        torch.stack(dv, dim=2).to(torch.bfloat16),
    )
