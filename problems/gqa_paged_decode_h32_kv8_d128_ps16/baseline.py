"""Paged decoding by FlashAttention's ragged kernel over gathered pages on GPUs; batched products elsewhere."""

import torch


@torch.no_grad()
def run(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    page_offsets: torch.Tensor,
    page_table: torch.Tensor,
    last_page_len: torch.Tensor,
    sm_scale: float,
    out: torch.Tensor,
    lse: torch.Tensor,
) -> None:
    batch, heads, size = q.shape
    page_size, kv_heads = k_cache.shape[1], k_cache.shape[2]
    group = heads // kv_heads
    keys = k_cache.index_select(0, page_table).flatten(0, 1)
    values = v_cache.index_select(0, page_table).flatten(0, 1)
    lengths = (page_offsets.diff() - 1) * page_size + last_page_len
    if q.is_cuda:
        # The query heads that share a key head stand as rows of one block, so that keys are read once for all of them.
        rows = q.view(batch, kv_heads, group, size).transpose(1, 2).reshape(batch * group, kv_heads, size)
        ends = torch.arange(batch + 1, device=q.device, dtype=torch.int32) * group
        found, sums, *_ = torch.ops.aten._flash_attention_forward(
            rows, keys, values, ends, page_offsets * page_size, group, keys.shape[0], 0.0, False, False,
            scale=sm_scale, seqused_k=lengths,
        )
        out.view(batch, kv_heads, group, size).copy_(found.view(batch, group, kv_heads, size).transpose(1, 2))
        sums = sums.reshape(kv_heads, -1)[:, : batch * group].view(kv_heads, batch, group)
        lse.view(batch, kv_heads, group).copy_(sums.transpose(0, 1))
        return
    begins, used = (page_offsets * page_size).tolist(), lengths.tolist()
    for s, length in enumerate(used):
        own = slice(begins[s], begins[s] + length)
        queries = (q[s].float() * sm_scale).view(kv_heads, group, size)
        scores = torch.bmm(queries, keys[own].permute(1, 2, 0).float())
        sums = torch.logsumexp(scores, dim=-1, keepdim=True)
        weights = scores.sub_(sums).exp_()
        out[s] = torch.bmm(weights, values[own].transpose(0, 1).float()).view(heads, size)
        lse[s] = sums.view(heads)
