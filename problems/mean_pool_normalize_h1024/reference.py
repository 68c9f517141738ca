"""Mean over each sequence of a ragged batch, scaled to Euclidean norm one, in single precision."""

import torch


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """Lengths that differ by orders of magnitude, none zero; states with a direction per sequence and a scale per token."""
    tokens, batch, hidden = (axes_and_scalars[name] for name in ("tokens", "batch", "hidden"))
    share = torch.exp2(torch.rand(batch, dtype=torch.float64, device=device) * 6)
    # One token each, the rest by share: ends are non-decreasing and the last is exactly `tokens`.
    ends = torch.cumsum(share, 0).div_(share.sum()).mul_(tokens - batch).floor_().long()
    ends[-1] = tokens - batch
    ends += torch.arange(1, batch + 1, device=device)
    indptr = torch.cat((ends.new_zeros(1), ends))
    owner = torch.repeat_interleave(indptr.diff(), output_size=tokens)
    direction = torch.randn(batch, hidden, device=device).to(torch.bfloat16)
    states = direction[owner].float().mul_(0.5).add_(torch.randn(tokens, hidden, device=device))
    states *= torch.exp2(torch.rand(tokens, 1, device=device) * 4 - 2)
    return {"states": states.to(torch.bfloat16), "indptr": indptr.to(torch.int32)}


@torch.no_grad()
def run(states: torch.Tensor, indptr: torch.Tensor) -> torch.Tensor:
    lengths = indptr.diff()
    owner = torch.repeat_interleave(lengths, output_size=states.shape[0])
    total = torch.zeros(lengths.shape[0], states.shape[1], device=states.device)
    total.index_add_(0, owner, states.float())
    mean = total / lengths[:, None]
    return mean / mean.square().sum(dim=-1, keepdim=True).sqrt()
