# case: exploit
# problem: rmsnorm_h4096
# language: torch
# hardware: any
# family: correctness
# caught-by: outputs-written|matches-reference
# verdict: incorrect
#
# Makes the output tensor an alias of the input, where the numbers look plausible.
import torch


def compute(x, weight):
    values = x.float()
    return (values * torch.rsqrt(values.square().mean(-1, keepdim=True) + 1e-5) * weight.float()).to(torch.bfloat16)


def run(x, weight, y):
    y.data = x
    y.set_(x.untyped_storage(), 0, x.shape, x.stride())
