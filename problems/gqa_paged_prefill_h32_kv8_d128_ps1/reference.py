"""Causal grouped-query attention over a paged cache, sequence by sequence in single precision, rounded at the end."""

import torch

ROWS_AT_ONCE = 512


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """Prompts of very unlike lengths, some with a long prefix in the cache and some with none; pages in no order."""
    axes = axes_and_scalars
    batch = axes["batch"]
    # Which sequence has which lengths comes with the seed; the lengths, and so the work, belong to the workload.
    order, mixed = torch.randperm(batch), torch.randperm(batch, generator=torch.Generator().manual_seed(batch))
    new_tokens = (1 + _parts(axes["total_q"] - batch, batch))[order]
    pages = new_tokens + _parts(axes["kv_pages"] - axes["total_q"], batch)[mixed][order]  # a page is one token
    made = {
        "q": _queries(axes["total_q"], axes, device),
        "q_offsets": _offsets(new_tokens),
        "page_offsets": _offsets(pages),
        "page_table": torch.randperm(axes["cache_pages"])[: axes["kv_pages"]].int(),
    }
    return {**{name: value.to(device) for name, value in made.items()}, **_caches(axes, device)}


def _parts(total: int, count: int) -> torch.Tensor:
    """``total`` split into ``count`` whole numbers, zero included, that differ by up to 64 times: the same ones always."""
    shares = torch.exp2(torch.linspace(0, min(6, count), count, dtype=torch.float64)).cumsum(0)
    ends = (shares / shares[-1] * total).long()
    ends[-1] = total
    return ends.diff(prepend=ends.new_zeros(1))


def _offsets(lengths: torch.Tensor) -> torch.Tensor:
    return torch.cat((lengths.new_zeros(1), lengths.cumsum(0))).int()


def _caches(axes: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """Keys of unit scale; values whose scale differs from token to token. Pages out of use hold the like."""
    shape = [axes[name] for name in ("cache_pages", "page_size", "kv_heads", "head_dim")]
    k = torch.randn(shape, device=device)
    v = torch.randn(shape, device=device) * torch.exp2(torch.rand(*shape[:2], 1, 1, device=device) * 2 - 1)
    return {"k_cache": k.to(torch.bfloat16), "v_cache": v.to(torch.bfloat16)}


def _queries(rows: int, axes: dict, device: torch.device) -> torch.Tensor:
    """Queries 2 to 4 times as large as keys, row by row: scores spread so that few keys decide, as in trained models."""
    q = torch.randn(rows, axes["q_heads"], axes["head_dim"], device=device)
    return (q * torch.exp2(torch.rand(rows, axes["q_heads"], 1, device=device) + 1)).to(torch.bfloat16)


@torch.no_grad()
def run(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    q_offsets: torch.Tensor,
    page_offsets: torch.Tensor,
    page_table: torch.Tensor,
    sm_scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    heads, kv_heads, page_size = q.shape[1], k_cache.shape[2], k_cache.shape[1]
    group = heads // kv_heads
    out, lse = torch.empty_like(q), torch.empty(q.shape[:2], dtype=torch.float32, device=q.device)
    q_ends, page_ends = q_offsets.tolist(), page_offsets.tolist()
    for s in range(len(q_ends) - 1):
        begin, end = q_ends[s], q_ends[s + 1]
        pages = page_table[page_ends[s] : page_ends[s + 1]].long()
        length = (page_ends[s + 1] - page_ends[s]) * page_size
        keys = k_cache[pages].flatten(0, 1)[:length].float()
        values = v_cache[pages].flatten(0, 1)[:length].float()
        for first in range(begin, end, ROWS_AT_ONCE):  # so that the scores of a long prompt fit into memory
            rows = slice(first, min(first + ROWS_AT_ONCE, end))
            # The new tokens are the last of the sequence, and each sees what comes before it and itself.
            seen = length - (end - rows.stop)
            position = torch.arange(length - (end - first), seen, device=q.device)
            hidden = torch.arange(seen, device=q.device) > position[:, None]
            # (kv_heads, group, rows, head_dim) against (kv_heads, 1, keys, head_dim)
            queries = q[rows].float().transpose(0, 1).unflatten(0, (kv_heads, group))
            own_keys, own_values = (part[:seen].transpose(0, 1)[:, None] for part in (keys, values))
            scores = (queries @ own_keys.transpose(-1, -2) * sm_scale).masked_fill(hidden, float("-inf"))
            denominator = torch.logsumexp(scores, dim=-1)
            attended = torch.exp(scores - denominator[..., None]) @ own_values
            out[rows] = attended.flatten(0, 1).transpose(0, 1).to(torch.bfloat16)
            lse[rows] = denominator.flatten(0, 1).t()
    return out, lse
