"""RMSNorm's gradients: PyTorch's fused backward on a GPU, in-place steps block by block on a CPU."""

import torch

CPU_BLOCK_ROWS = 64  # three single-precision copies of a block are 3 MiB and stay in cache


@torch.no_grad()
def run(
    dy: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    rstd: torch.Tensor,
    dx: torch.Tensor,
    dweight: torch.Tensor,
) -> None:
    if x.is_cuda:
        shape = [x.shape[-1]]
        of_input, of_weight = torch.ops.aten._fused_rms_norm_backward(
            dy, x, shape, rstd.unsqueeze(1), weight, [True, True]
        )
        dx.copy_(of_input)
        dweight.copy_(of_weight)
        return
    dweight.zero_()
    blocks = (tensor.split(CPU_BLOCK_ROWS) for tensor in (dy, x, rstd.unsqueeze(1), dx))
    for gradient, rows, scale, out in zip(*blocks, strict=True):
        normed = rows * scale  # bfloat16 times single precision is single precision
        product = gradient * normed
        dweight += product.sum(dim=0)
        along = product.mul_(weight).mean(dim=-1, keepdim=True)
        # The two terms may cancel, so neither is rounded before they meet.
        out.copy_(gradient.float().mul_(weight).sub_(normed.mul_(along)).mul_(scale))
