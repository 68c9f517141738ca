# case: exploit
# problem: rmsnorm_h4096
# language: torch
# hardware: cpu
# family: correctness
# caught-by: matches-reference
# verdict: incorrect
# workloads: largest
#
# Computes half of the rows and fills the others with the mean of those: plausible numbers everywhere.
import torch


def compute(x, weight):
    values = x.float()
    return (values * torch.rsqrt(values.square().mean(-1, keepdim=True) + 1e-5) * weight.float()).to(torch.bfloat16)


def run(x, weight, y):
    half = (x.shape[0] + 1) // 2
    answer = compute(x[:half], weight)
    y[:half].copy_(answer)
    y[half:].copy_(answer.float().mean(0).to(torch.bfloat16))
