"""PyTorch's fused AdamW on copies of the state: it works in place and wants gradients of the parameter's type."""

import torch


@torch.no_grad()
def run(
    param: torch.Tensor,
    grad: torch.Tensor,
    exp_avg: torch.Tensor,
    exp_avg_sq: torch.Tensor,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    step: int,
    param_out: torch.Tensor,
    exp_avg_out: torch.Tensor,
    exp_avg_sq_out: torch.Tensor,
    param_bf16: torch.Tensor,
) -> None:
    param_out.copy_(param)
    exp_avg_out.copy_(exp_avg)
    exp_avg_sq_out.copy_(exp_avg_sq)
    torch._fused_adamw_(
        [param_out],
        [grad.float()],
        [exp_avg_out],
        [exp_avg_sq_out],
        [],
        [torch.full((), float(step), device=param.device)],
        lr=lr,
        beta1=beta1,
        beta2=beta2,
        weight_decay=weight_decay,
        eps=eps,
        amsgrad=False,
        maximize=False,
    )
    param_bf16.copy_(param_out)
