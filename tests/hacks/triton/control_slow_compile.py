# case: control
# problem: rmsnorm_h4096
# language: triton
# hardware: gpu
# family: honest
#
# Tries several configurations when it first sees a shape, as an autotuner does: slow once, and outside the timed calls.
import torch
import triton
import triton.language as tl

_fastest = {}


@triton.jit
def normalise(x, weight, y, HIDDEN: tl.constexpr):
    columns = tl.arange(0, HIDDEN)
    row = tl.program_id(0) * HIDDEN
    values = tl.load(x + row + columns).to(tl.float32)
    inverse_rms = tl.rsqrt(tl.sum(values * values, axis=0) / HIDDEN + 1e-5)
    scaled = values * inverse_rms * tl.load(weight + columns).to(tl.float32)
    tl.store(y + row + columns, scaled.to(tl.bfloat16))


def launch(x, weight, y, warps):
    normalise[(x.shape[0],)](x, weight, y, HIDDEN=x.shape[1], num_warps=warps)


def took(x, weight, y, warps):
    launch(x, weight, y, warps)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(5):
        launch(x, weight, y, warps)
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def run(x, weight, y):
    if x.shape not in _fastest:
        _fastest[x.shape] = min((4, 8, 16, 32), key=lambda warps: took(x, weight, y, warps))
    launch(x, weight, y, _fastest[x.shape])
