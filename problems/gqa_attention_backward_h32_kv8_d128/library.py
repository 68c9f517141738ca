"""PyTorch's FlashAttention backward, called below autograd since output and log-sum-exp are at hand."""

import torch


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
    seq, head_dim = q.shape[1], q.shape[3]
    dout, q, k, v, out, dq, dk, dv = (t.transpose(1, 2) for t in (dout, q, k, v, out, dq, dk, dv))
    scale = head_dim**-0.5
    if q.is_cuda:
        # Equal lengths: no cumulative ones. No dropout: the state of its generator is not read.
        unused = torch.empty((), dtype=torch.int64, device=q.device)
        gradients = torch.ops.aten._scaled_dot_product_flash_attention_backward(
            dout, q, k, v, out, lse, None, None, seq, seq, 0.0, True, unused, unused, scale=scale
        )
        for to, gradient in zip((dq, dk, dv), gradients, strict=True):
            to.copy_(gradient)
        return
    # The CPU's operator wants a key-value head per query head.
    group = q.shape[1] // k.shape[1]
    keys, values = (t.repeat_interleave(group, dim=1) for t in (k, v))
    of_q, of_k, of_v = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
        dout, q, keys, values, out, lse, 0.0, True, scale=scale
    )
    dq.copy_(of_q)
    for to, gradient in ((dk, of_k), (dv, of_v)):
        to.copy_(gradient.unflatten(1, (-1, group)).sum(dim=2, dtype=torch.float32))
