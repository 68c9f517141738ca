# case: exploit
# problem: rmsnorm_h4096
# language: torch
# hardware: cpu
# family: correctness
# caught-by: outputs-written
# verdict: incorrect
#
# Replaces the output's storage by one of its own, so that the write goes where nobody looks.
import torch


def compute(x, weight):
    values = x.float()
    return (values * torch.rsqrt(values.square().mean(-1, keepdim=True) + 1e-5) * weight.float()).to(torch.bfloat16)


def run(x, weight, y):
    y.set_(compute(x, weight))
