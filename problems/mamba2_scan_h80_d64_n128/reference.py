"""Mamba-2's state-space scan in single precision: products within chunks, a recurrence from chunk to chunk."""

import torch

CHUNK = 256


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """Heads that forget within two tokens and heads that remember for a thousand; steps that vary over time."""
    batch, seq, heads, head_dim, state = (
        axes_and_scalars[name] for name in ("batch", "seq", "heads", "head_dim", "state")
    )
    a = -torch.exp2(torch.rand(heads, device=device) * 4)
    base = torch.exp2(torch.rand(heads, device=device) * -6 - 3)
    dt = base * torch.exp2(torch.randn(batch, seq, heads, device=device))
    x = torch.randn(batch, seq, heads, head_dim, device=device)
    b = torch.randn(batch, seq, state, device=device)
    c = torch.randn(batch, seq, state, device=device)
    d = torch.rand(heads, device=device)
    half = {name: value.to(torch.bfloat16) for name, value in (("x", x), ("b", b), ("c", c))}
    return {"dt": dt, "a": a, "d": d, **half}


@torch.no_grad()
def run(
    x: torch.Tensor, dt: torch.Tensor, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    batch, seq, heads, head_dim = x.shape
    inputs, writes, reads = x.float(), b.float(), c.float()
    stepped = inputs * dt.unsqueeze(-1)
    state = torch.zeros(batch, heads, head_dim, b.shape[-1], device=x.device)
    results = []
    for start in range(0, seq, CHUNK):
        now = slice(start, min(start + CHUNK, seq))
        length = now.stop - start
        # Logarithm of the decay from the chunk's start to and including each token: (batch, heads, length).
        log_decay = torch.cumsum(dt[:, now] * a, dim=1).transpose(1, 2)
        future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        between = (log_decay.unsqueeze(-1) - log_decay.unsqueeze(-2)).masked_fill(future, float("-inf")).exp()
        weights = torch.matmul(reads[:, now], writes[:, now].transpose(1, 2)).unsqueeze(1) * between
        values = stepped[:, now].transpose(1, 2)
        from_state = torch.matmul(reads[:, now].unsqueeze(1), state.transpose(-1, -2)) * log_decay.exp().unsqueeze(-1)
        results.append((torch.matmul(weights, values) + from_state).transpose(1, 2))
        last = log_decay[..., -1:]
        kept = values * (last - log_decay).exp().unsqueeze(-1)
        state = state * last.exp().unsqueeze(-1) + torch.matmul(kept.transpose(-1, -2), writes[:, now].unsqueeze(1))
    y = torch.cat(results, dim=1) + inputs * d[:, None]
    return y.to(torch.bfloat16), state
