"""Attention within each of the packed sequences, in single precision, rounded at the end."""

from itertools import pairwise

import torch

ROWS_AT_ONCE = 1024


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """Sequences of very unlike lengths; queries large enough that few keys decide; values of unlike scale."""
    tokens, heads, head_dim = (axes_and_scalars[name] for name in ("tokens", "heads", "head_dim"))
    batch = axes_and_scalars["batch"]
    qkv = torch.randn(tokens, 3, heads, head_dim, device=device)
    qkv[:, 0] *= torch.exp2(torch.rand(tokens, heads, 1, device=device) + 1)
    qkv[:, 2] *= torch.exp2(torch.rand(tokens, 1, 1, device=device) * 2 - 1)
    # Which sequence has which length comes with the seed; the lengths, and so the work, belong to the workload.
    lengths = (1 + _parts(tokens - batch, batch))[torch.randperm(batch)]
    return {"qkv": qkv.to(torch.bfloat16), "sequence_offsets": _offsets(lengths).to(device)}


def _parts(total: int, count: int) -> torch.Tensor:
    """``total`` split into ``count`` whole numbers, zero included, that differ by up to 64 times: the same ones always."""
    shares = torch.exp2(torch.linspace(0, min(6, count), count, dtype=torch.float64)).cumsum(0)
    ends = (shares / shares[-1] * total).long()
    ends[-1] = total
    return ends.diff(prepend=ends.new_zeros(1))


def _offsets(lengths: torch.Tensor) -> torch.Tensor:
    return torch.cat((lengths.new_zeros(1), lengths.cumsum(0))).int()


@torch.no_grad()
def run(qkv: torch.Tensor, sequence_offsets: torch.Tensor) -> torch.Tensor:
    tokens, _, heads, head_dim = qkv.shape
    out = torch.empty(tokens, heads, head_dim, dtype=qkv.dtype, device=qkv.device)
    ends = sequence_offsets.tolist()
    for begin, end in pairwise(ends):
        keys, values = qkv[begin:end, 1].float().transpose(0, 1), qkv[begin:end, 2].float().transpose(0, 1)
        for first in range(begin, end, ROWS_AT_ONCE):  # so that the scores of a long sequence fit into memory
            rows = slice(first, min(first + ROWS_AT_ONCE, end))
            queries = qkv[rows, 0].float().transpose(0, 1)
            weights = torch.softmax(queries @ keys.transpose(1, 2) * head_dim**-0.5, dim=-1)
            out[rows] = (weights @ values).transpose(0, 1).to(qkv.dtype)
    return out
