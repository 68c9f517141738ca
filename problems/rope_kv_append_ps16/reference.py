"""Rotation of new keys and placement of keys and values into pages, sequence by sequence, in single precision."""

import torch

THETA = 500000.0


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """Prompts of very unlike lengths that end anywhere in a page and start at any page of the context."""
    axes = axes_and_scalars
    batch, page_size, pages = axes["batch"], axes["page_size"], axes["pages"]
    # Pages first, then how full each last page is: one token, and the rest dealt over the places that are left.
    counts = (1 + _parts(pages - batch, batch))[torch.randperm(batch)]
    dealt = axes["tokens"] - page_size * (pages - batch) - batch
    places = torch.randperm(batch * (page_size - 1))[:dealt] // (page_size - 1)
    lengths = (counts - 1) * page_size + 1 + torch.bincount(places, minlength=batch)
    free = (axes["max_position"] - counts * page_size) // page_size
    start = (torch.rand(batch) * (free + 1)).long() * page_size
    shape = (axes["tokens"], axes["kv_heads"], axes["head_dim"])
    token_scale = torch.exp2(torch.rand(shape[0], 1, 1, device=device) * 4 - 2)
    position = torch.arange(axes["max_position"], device=device, dtype=torch.float64)
    channel = torch.arange(axes["half_dim"], device=device, dtype=torch.float64)
    angle = position[:, None] * THETA ** (-channel / axes["half_dim"])
    return {
        "k": (torch.randn(shape, device=device) * token_scale).to(torch.bfloat16),
        "v": (torch.randn(shape, device=device) * token_scale).to(torch.bfloat16),
        "cos_table": angle.cos().float(),
        "sin_table": angle.sin().float(),
        "token_offsets": _offsets(lengths).to(device),
        "start_position": start.int().to(device),
        "page_offsets": _offsets(counts).to(device),
        "page_table": torch.randperm(pages).int().to(device),
    }


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
    k: torch.Tensor,
    v: torch.Tensor,
    cos_table: torch.Tensor,
    sin_table: torch.Tensor,
    token_offsets: torch.Tensor,
    start_position: torch.Tensor,
    page_offsets: torch.Tensor,
    page_table: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    page_size, (kv_heads, head_dim) = 16, k.shape[1:]
    shape = (page_table.shape[0], page_size, kv_heads, head_dim)
    k_pages, v_pages = (torch.zeros(shape, dtype=k.dtype, device=k.device) for _ in range(2))
    ends, page_ends, starts = token_offsets.tolist(), page_offsets.tolist(), start_position.tolist()
    for s, start in enumerate(starts):
        length = ends[s + 1] - ends[s]
        cos, sin = (table[start : start + length, None] for table in (cos_table, sin_table))
        low, high = k[ends[s] : ends[s + 1]].float().chunk(2, dim=-1)
        rotated = torch.cat((low * cos - high * sin, high * cos + low * sin), dim=-1).to(k.dtype)
        place = torch.arange(length, device=k.device)
        page = page_table[page_ends[s] : page_ends[s + 1]].long()[place // page_size]
        k_pages[page, place % page_size] = rotated
        v_pages[page, place % page_size] = v[ends[s] : ends[s + 1]]
    return k_pages, v_pages
