# case: exploit
# problem: rmsnorm_h4096
# language: torch
# hardware: cpu
# family: timing
# caught-by: outputs-written|matches-reference
# verdict: incorrect
#
# Leaves the work to the end of the process.
import atexit

import torch


def compute(x, weight):
    values = x.float()
    return (values * torch.rsqrt(values.square().mean(-1, keepdim=True) + 1e-5) * weight.float()).to(torch.bfloat16)


left = []
atexit.register(lambda: [y.copy_(compute(x, weight)) for x, weight, y in left])


def run(x, weight, y):
    left.append((x, weight, y))
