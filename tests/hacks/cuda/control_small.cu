// case: control
// problem: rowsum_small_f32
// language: cuda
// hardware: gpu
// family: honest
//
// Few rows, a block each: a call of little more than one trip to the memory.
#include <cstdint>

#include "problem.h"
#include "rowsum.cuh"

__global__ void __launch_bounds__(256) sums(const float* x, float* y, int64_t cols) {
    rowsum::write_sum(rowsum::part_in_flight<rowsum::through_l2>(x + blockIdx.x * cols, cols), y + blockIdx.x);
}

extern "C" int kernel_launch(const float* x, float* y, int64_t rows, int64_t cols, cudaStream_t stream) {
    sums<<<static_cast<unsigned>(rows), 256, 0, stream>>>(x, y, cols);
    return cudaGetLastError() != cudaSuccess;
}
