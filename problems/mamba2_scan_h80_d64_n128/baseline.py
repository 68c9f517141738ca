"""The scan with all chunks of a sequence at once; only the states go from chunk to chunk one after the other."""

import torch
import torch.nn.functional as F

CHUNK = 64


@torch.no_grad()
def run(
    x: torch.Tensor,
    dt: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    d: torch.Tensor,
    y: torch.Tensor,
    final_state: torch.Tensor,
) -> None:
    batch, seq, heads, head_dim = x.shape
    chunks = -(-seq // CHUNK)
    rest = chunks * CHUNK - seq
    # A padded token has a step of zero: it neither decays nor writes.
    steps = F.pad(dt, (0, 0, 0, rest)).view(batch, chunks, CHUNK, heads).permute(0, 1, 3, 2)
    inputs = F.pad(x, (0, 0, 0, 0, 0, rest)).view(batch, chunks, CHUNK, heads, head_dim).transpose(2, 3)
    writes, reads = (F.pad(t, (0, 0, 0, rest)).view(batch, chunks, 1, CHUNK, -1) for t in (b, c))
    log_decay = torch.cumsum(steps * a[:, None], dim=-1)
    between = (log_decay.unsqueeze(-1) - log_decay.unsqueeze(-2)).exp_().tril_()
    # The products take bfloat16 operands on a GPU's tensor cores and single precision on a CPU.
    kind = x.dtype if x.is_cuda else torch.float32
    inputs, writes, reads = inputs.to(kind), writes.to(kind), reads.to(kind)
    values = (inputs * steps.unsqueeze(-1)).to(kind)
    weights = torch.matmul(reads, writes.transpose(-1, -2)).mul(between).to(kind)
    total = torch.matmul(weights, values).float()
    last = log_decay[..., -1:]
    kept = (values * (last - log_decay).exp_().unsqueeze(-1)).to(kind)
    added = torch.matmul(kept.transpose(-1, -2), writes).float()
    factor = last.exp().unsqueeze(-1)
    before = torch.empty_like(added)
    state = torch.zeros_like(added[:, 0])
    for chunk in range(chunks):
        before[:, chunk] = state
        state = torch.addcmul(added[:, chunk], state, factor[:, chunk])
    final_state.copy_(state)
    from_state = torch.matmul(reads, before.to(kind).transpose(-1, -2))
    total.addcmul_(from_state.float(), log_decay.exp().unsqueeze(-1)).addcmul_(inputs.float(), d[:, None, None])
    y.copy_(total.transpose(2, 3).reshape(batch, -1, heads, head_dim)[:, :seq])
