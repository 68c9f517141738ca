"""The place of every token by array arithmetic, without asking the device; then rotation and two scatters."""

import torch


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
    k_pages: torch.Tensor,
    v_pages: torch.Tensor,
) -> None:
    tokens, kv_heads, head_dim = k.shape
    page_size = k_pages.shape[1]
    token = torch.arange(tokens, device=k.device, dtype=torch.int32)
    owner = torch.searchsorted(token_offsets, token, right=True) - 1
    place = token - token_offsets[owner]
    page = page_table[page_offsets[owner] + place // page_size]
    row = (page * page_size + place % page_size).long()
    position = start_position[owner] + place
    cos, sin = (table.index_select(0, position)[:, None] for table in (cos_table, sin_table))
    low, high = k.chunk(2, dim=-1)
    rotated = torch.empty_like(k)
    rotated[..., : head_dim // 2] = (low * cos).addcmul_(high, sin, value=-1)
    rotated[..., head_dim // 2 :] = (high * cos).addcmul_(low, sin)
    for pages, content in ((k_pages, rotated), (v_pages, v)):
        pages.zero_().view(-1, kv_heads, head_dim).index_copy_(0, row, content)
