"""Attention's gradients block of queries by block, each against the keys up to its end, on 16-bit operands on a GPU."""

import torch

BLOCK = 512  # queries; their scores against 4096 keys are 256 MiB in single precision over 32 heads


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The batched product in single precision."""
    return torch.bmm(a, b, out_dtype=torch.float32) if a.is_cuda else torch.bmm(a, b)


@torch.no_grad()
def run(
    dout: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    dq: torch.Tensor,
    dk: torch.Tensor,
    dv: torch.Tensor,
) -> None:
    batch, seq, q_heads, head_dim = q.shape
    kv_heads, scale = k.shape[2], head_dim**-0.5
    group = q_heads // kv_heads
    kind = q.dtype if q.is_cuda else torch.float32

    def by_head(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.transpose(1, 2).reshape(batch * kv_heads, -1, seq, head_dim).to(kind)

    queries, gradients, keys, values = (by_head(t) for t in (q, dout, k, v))
    keys, values = keys.squeeze(1), values.squeeze(1)
    along = torch.linalg.vecdot(dout.float(), out.float()).transpose(1, 2).reshape(batch * kv_heads, group, seq, 1)
    total = lse.reshape(batch * kv_heads, group, seq, 1)
    of_k, of_v = (torch.zeros(t.shape, dtype=torch.float32, device=t.device) for t in (keys, values))
    for start in range(0, seq, BLOCK):
        stop = min(start + BLOCK, seq)
        # The query heads of a group stand below one another: their sum in dk and dv is then part of the product.
        rows, slopes, sums, parts = (t[:, :, start:stop].flatten(1, 2) for t in (queries, gradients, total, along))
        probs = _product(rows, keys[:, :stop].mT).mul_(scale).sub_(sums).exp_()
        probs.unflatten(1, (group, -1)).tril_(start)
        of_v[:, :stop] += _product(probs.to(kind).mT, slopes)
        dscores = _product(slopes, values[:, :stop].mT).sub_(parts).mul_(probs).mul_(scale).to(kind)
        of_k[:, :stop] += _product(dscores.mT, rows)
        result = _product(dscores, keys[:, :stop]).view(batch, kv_heads, group, stop - start, head_dim)
        dq[:, start:stop].unflatten(2, (kv_heads, group)).copy_(result.permute(0, 3, 1, 2, 4))
    for to, gradient in ((dk, of_k), (dv, of_v)):
        to.copy_(gradient.view(batch, kv_heads, seq, head_dim).transpose(1, 2))
