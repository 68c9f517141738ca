# case: control
# problem: rmsnorm_h4096
# language: torch
# hardware: any
# family: honest
#
# Does the work in the destructor of a local object: odd, but inside the call.
import torch


def compute(x, weight):
    values = x.float()
    return (values * torch.rsqrt(values.square().mean(-1, keepdim=True) + 1e-5) * weight.float()).to(torch.bfloat16)


class Deferred:
    def __init__(self, *arguments):
        self.arguments = arguments

    def __del__(self):
        x, weight, y = self.arguments
        y.copy_(compute(x, weight))


def run(x, weight, y):
    Deferred(x, weight, y)
