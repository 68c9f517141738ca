# case: exploit
# problem: rmsnorm_h4096
# language: torch
# hardware: cpu
# family: timing
# caught-by: clock-agrees
# verdict: clock_mismatch
# workloads: largest
#
# Freezes every clock of the interpreter, so that the runner measures nothing inside its own process. (The answer is
# honest.)
import torch


def compute(x, weight):
    values = x.float()
    return (values * torch.rsqrt(values.square().mean(-1, keepdim=True) + 1e-5) * weight.float()).to(torch.bfloat16)


import time  # noqa: E402

now = time.perf_counter_ns()
time.perf_counter_ns = time.monotonic_ns = time.time_ns = lambda: now
time.perf_counter = time.monotonic = time.time = lambda: now / 1e9


def run(x, weight, y):
    y.copy_(compute(x, weight))
