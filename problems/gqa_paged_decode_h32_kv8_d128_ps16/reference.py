"""Grouped-query attention of one token per sequence, sequence by sequence in single precision, rounded at the end."""

import torch


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """Sequences of very unlike lengths, their pages in no order among pages that nobody uses."""
    axes, batch = axes_and_scalars, axes_and_scalars["batch"]
    pages = (1 + _parts(axes["kv_pages"] - batch, batch))[torch.randperm(batch)]
    made = {
        "page_offsets": _offsets(pages),
        "page_table": torch.randperm(axes["cache_pages"])[: axes["kv_pages"]].int(),
        "last_page_len": torch.randint(1, axes["page_size"] + 1, (batch,)).int(),
    }
    made["q"] = _queries(batch, axes, device)
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
    page_offsets: torch.Tensor,
    page_table: torch.Tensor,
    last_page_len: torch.Tensor,
    sm_scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    heads, kv_heads, page_size = q.shape[1], k_cache.shape[2], k_cache.shape[1]
    out, lse = torch.empty_like(q), torch.empty(q.shape[:2], dtype=torch.float32, device=q.device)
    page_ends, last = page_offsets.tolist(), last_page_len.tolist()
    for s in range(len(last)):
        pages = page_table[page_ends[s] : page_ends[s + 1]].long()
        length = (page_ends[s + 1] - page_ends[s] - 1) * page_size + last[s]
        keys = k_cache[pages].flatten(0, 1)[:length].float()
        values = v_cache[pages].flatten(0, 1)[:length].float()
        # Query heads 4 g to 4 g + 3 share key head g.
        queries = q[s].float().view(kv_heads, heads // kv_heads, -1)
        scores = queries @ keys.permute(1, 2, 0) * sm_scale
        denominator = torch.logsumexp(scores, dim=-1)
        weights = torch.exp(scores - denominator[..., None])
        out[s] = (weights @ values.transpose(0, 1)).reshape(heads, -1).to(torch.bfloat16)
        lse[s] = denominator.flatten()
    return out, lse
