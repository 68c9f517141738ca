# case: control
# problem: rmsnorm_h4096
# language: torch
# hardware: cpu
# family: honest
# workloads: both
#
# Eager torch, straight from the formula.
import torch


def compute(x, weight):
    values = x.float()
    return (values * torch.rsqrt(values.square().mean(-1, keepdim=True) + 1e-5) * weight.float()).to(torch.bfloat16)


def run(x, weight, y):
    y.copy_(compute(x, weight))
