# case: control
# problem: rmsnorm_h4096
# language: torch
# hardware: cpu
# family: honest
# workloads: both
#
# Writes its output and returns it as well, and keeps statistics of its own between calls.
import collections

import torch


def compute(x, weight):
    values = x.float()
    return (values * torch.rsqrt(values.square().mean(-1, keepdim=True) + 1e-5) * weight.float()).to(torch.bfloat16)


shapes = collections.Counter()


def run(x, weight, y):
    shapes[x.shape] += 1
    y.copy_(compute(x, weight))
    return y
