# case: exploit
# problem: rmsnorm_h4096
# language: torch
# hardware: cpu
# family: correctness
# caught-by: matches-reference
# verdict: incorrect
#
# Computes on eight-bit floats and widens the result.
import torch


def compute(x, weight):
    values = x.float()
    return (values * torch.rsqrt(values.square().mean(-1, keepdim=True) + 1e-5) * weight.float()).to(torch.bfloat16)


def run(x, weight, y):
    scale = x.float().abs().amax(-1, keepdim=True) / 240
    narrow = (x.float() / scale).to(torch.float8_e4m3fn).float() * scale
    y.copy_(compute(narrow, weight))
