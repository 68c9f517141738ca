# case: control
# problem: rmsnorm_h4096
# language: torch
# hardware: cpu
# family: honest
# workloads: both
#
# Keeps a workspace between calls and writes through out= arguments.
import torch

workspace = {}


def run(x, weight, y):
    wide = workspace.get(x.shape)
    if wide is None:
        wide = workspace[x.shape] = torch.empty(x.shape, dtype=torch.float32)
    wide.copy_(x)
    factor = torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)
    wide.mul_(factor).mul_(weight.float())
    y.copy_(wide)
