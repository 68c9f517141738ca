"""Latent attention of one token per sequence, sequence by sequence in single precision, rounded at the end."""

import torch


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """Sequences of very unlike lengths, their pages in no order; latent vectors normalised, as the model keeps them."""
    axes, batch = axes_and_scalars, axes_and_scalars["batch"]
    pages = (1 + _parts(axes["kv_pages"] - batch, batch))[torch.randperm(batch)]
    made = {
        "page_offsets": _offsets(pages),
        "page_table": torch.randperm(axes["cache_pages"])[: axes["kv_pages"]].int(),
        "last_page_len": torch.randint(1, axes["page_size"] + 1, (batch,)).int(),
    }
    # Scores spread so that few tokens decide, as in trained models.
    spread = torch.exp2(torch.rand(batch, axes["heads"], 1, device=device)) * 1.5
    for name, size in (("q_latent", axes["latent_dim"]), ("q_rope", axes["rope_dim"])):
        made[name] = (torch.randn(batch, axes["heads"], size, device=device) * spread).to(torch.bfloat16)
    for name, size in (("latent_cache", axes["latent_dim"]), ("rope_cache", axes["rope_dim"])):
        made[name] = torch.randn(axes["cache_pages"], axes["page_size"], size, device=device).to(torch.bfloat16)
    return {name: value.to(device) for name, value in made.items()}


def _parts(total: int, count: int) -> torch.Tensor:
    """``total`` split into ``count`` whole numbers, zero included, that differ by up to 64 times: the same ones always."""
    shares = torch.exp2(torch.linspace(0, min(6, count), count, dtype=torch.float64)).cumsum(0)
    ends = (shares / shares[-1] * total).long()
    ends[-1] = total
    return ends.diff(prepend=ends.new_zeros(1))


def _offsets(lengths: torch.Tensor) -> torch.Tensor:
    return torch.cat((lengths.new_zeros(1), lengths.cumsum(0))).int()


@torch.no_grad()
def run(
    q_latent: torch.Tensor,
    q_rope: torch.Tensor,
    latent_cache: torch.Tensor,
    rope_cache: torch.Tensor,
    page_offsets: torch.Tensor,
    page_table: torch.Tensor,
    last_page_len: torch.Tensor,
    sm_scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    page_size = latent_cache.shape[1]
    out, lse = torch.empty_like(q_latent), torch.empty(q_latent.shape[:2], dtype=torch.float32, device=q_latent.device)
    page_ends, last = page_offsets.tolist(), last_page_len.tolist()
    for s in range(len(last)):
        pages = page_table[page_ends[s] : page_ends[s + 1]].long()
        length = (page_ends[s + 1] - page_ends[s] - 1) * page_size + last[s]
        latent = latent_cache[pages].flatten(0, 1)[:length].float()
        rope = rope_cache[pages].flatten(0, 1)[:length].float()
        scores = (q_latent[s].float() @ latent.t() + q_rope[s].float() @ rope.t()) * sm_scale
        denominator = torch.logsumexp(scores, dim=-1)
        weights = torch.exp(scores - denominator[:, None])
        out[s] = (weights @ latent).to(torch.bfloat16)
        lse[s] = denominator
    return out, lse
