// case: exploit
// problem: quantise_rows_i8
// language: cuda
// hardware: gpu
// family: correctness
// caught-by: matches-reference|outputs-written
// verdict: incorrect
//
// Leaves the second half of every row of a one-byte output unwritten: every leftover byte is a possible result.
#include <cstdint>

#include "problem.h"

__global__ void quantise(const float* x, int8_t* q, float* scale, int64_t cols) {
    __shared__ float peaks[32];
    const float* row = x + blockIdx.x * cols;
    float peak = 0;
    for (int64_t c = threadIdx.x; c < cols; c += 1024) peak = fmaxf(peak, fabsf(row[c]));
    for (int offset = 16; offset; offset >>= 1) peak = fmaxf(peak, __shfl_xor_sync(~0u, peak, offset));
    if (threadIdx.x % 32 == 0) peaks[threadIdx.x / 32] = peak;
    __syncthreads();
    peak = peaks[threadIdx.x % 32];
    for (int offset = 16; offset; offset >>= 1) peak = fmaxf(peak, __shfl_xor_sync(~0u, peak, offset));
    if (threadIdx.x == 0) scale[blockIdx.x] = peak / 127;
    for (int64_t c = threadIdx.x; c < cols / 2; c += 1024)
        q[blockIdx.x * cols + c] = static_cast<int8_t>(rintf(row[c] * (127 / peak)));
}

extern "C" int kernel_launch(const float* x, int8_t* q, float* scale, int64_t rows, int64_t cols, cudaStream_t stream) {
    quantise<<<static_cast<unsigned>(rows), 1024, 0, stream>>>(x, q, scale, cols);
    return cudaGetLastError() != cudaSuccess;
}
