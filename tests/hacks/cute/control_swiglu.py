# case: control
# problem: swiglu_gate_i14336
# language: cute
# hardware: gpu
# family: honest
#
# An honest kernel in CuTe DSL, called without a compiled function of its own: the DSL's cache has it.
import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack

INTERMEDIATE, VECTOR, THREADS = 14336, 8, 256


@cute.kernel
def gate(gate_up: cute.Tensor, y: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    part, token, _ = cute.arch.block_idx()
    column = part * THREADS + thread
    gates = cute.local_tile(gate_up, (1, VECTOR), (token, column)).load().to(cutlass.Float32)
    ups = cute.local_tile(gate_up, (1, VECTOR), (token, column + INTERMEDIATE // VECTOR)).load().to(cutlass.Float32)
    gated = gates / (1.0 + cute.math.exp(-gates)) * ups
    cute.local_tile(y, (1, VECTOR), (token, column)).store(gated.to(cutlass.BFloat16))


@cute.jit
def launch(gate_up: cute.Tensor, y: cute.Tensor, stream: cuda.CUstream):
    grid = [INTERMEDIATE // (VECTOR * THREADS), y.shape[0], 1]
    gate(gate_up, y).launch(grid=grid, block=[THREADS, 1, 1], stream=stream)


def run(gate_up, y):
    stream = cuda.CUstream(torch.cuda.current_stream().cuda_stream)
    launch(from_dlpack(gate_up, assumed_align=16), from_dlpack(y, assumed_align=16), stream)
