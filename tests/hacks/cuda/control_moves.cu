// case: control
// problem: swap_halves_f32
// language: cuda
// hardware: gpu
// family: honest
//
// Moves rows and computes nothing.
#include "problem.h"
#include "swap.cuh"

extern "C" int kernel_launch(const float* x, float* y, int64_t rows, int64_t cols, cudaStream_t stream) {
    return swap::rows_of(x, y, rows, cols, 0, rows, stream);
}
