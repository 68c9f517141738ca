# case: control
# problem: rmsnorm_h4096
# language: triton
# hardware: gpu
# family: honest
# workloads: both
#
# An honest kernel that uses torch for what a Triton kernel may use it for: memory of its own, filled and copied.
import torch
import triton
import triton.language as tl


@triton.jit
def normalise(x, weight, y, HIDDEN: tl.constexpr):
    columns = tl.arange(0, HIDDEN)
    row = tl.program_id(0) * HIDDEN
    values = tl.load(x + row + columns).to(tl.float32)
    inverse_rms = tl.rsqrt(tl.sum(values * values, axis=0) / HIDDEN + 1e-5)
    scaled = values * inverse_rms * tl.load(weight + columns).to(tl.float32)
    tl.store(y + row + columns, scaled.to(tl.bfloat16))


def run(x, weight, y):
    aside = torch.empty_like(y)
    aside.fill_(1.0)
    normalise[(x.shape[0],)](x, weight, aside, HIDDEN=x.shape[1], num_warps=8)
    y.copy_(aside)
