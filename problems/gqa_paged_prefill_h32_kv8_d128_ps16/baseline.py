"""Paged prefill by FlashAttention's ragged kernel over gathered pages on GPUs, by the CPU's flash kernel elsewhere."""

import torch


@torch.no_grad()
def run(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    q_offsets: torch.Tensor,
    page_offsets: torch.Tensor,
    page_table: torch.Tensor,
    last_page_len: torch.Tensor,
    sm_scale: float,
    out: torch.Tensor,
    lse: torch.Tensor,
) -> None:
    page_size = k_cache.shape[1]
    keys = k_cache.index_select(0, page_table).flatten(0, 1)
    values = v_cache.index_select(0, page_table).flatten(0, 1)
    lengths = (page_offsets.diff() - 1) * page_size + last_page_len
    if q.is_cuda:
        # The largest lengths only size the grid: an upper limit saves asking the device, which would wait for it.
        found, sums, *_ = torch.ops.aten._flash_attention_forward(
            q, keys, values, q_offsets, page_offsets * page_size, q.shape[0], keys.shape[0], 0.0, True, False,
            scale=sm_scale, seqused_k=lengths,
        )
        out.copy_(found)
        lse.copy_(sums.reshape(q.shape[1], -1)[:, : q.shape[0]].t())
        return
    q_ends, k_begins, used = q_offsets.tolist(), (page_offsets * page_size).tolist(), lengths.tolist()
    group = q.shape[1] // keys.shape[1]
    for s, length in enumerate(used):
        begin, end, first = q_ends[s], q_ends[s + 1], k_begins[s]
        queries = q[begin:end].transpose(0, 1)[None]
        own_keys = keys[first : first + length].transpose(0, 1).repeat_interleave(group, 0)[None]
        own_values = values[first : first + length].transpose(0, 1).repeat_interleave(group, 0)[None]
        rows = torch.arange(length - (end - begin), length)
        mask = torch.zeros(end - begin, length, dtype=q.dtype)
        mask.masked_fill_(torch.arange(length) > rows[:, None], float("-inf"))
        found, sums = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            queries, own_keys, own_values, 0.0, False, attn_mask=mask[None, None], scale=sm_scale
        )
        out[begin:end] = found[0].transpose(0, 1)
        lse[begin:end] = sums[0].view(q.shape[1], -1).t()
