// An honest row of quantise_rows_i8 by one block, for the CUDA cases of that problem.
#pragma once

#include <cstdint>

namespace quantise {

constexpr int THREADS = 1024;

// Quantises the first `written` elements of a row of `cols` by the whole row's scale.
__device__ inline void row(const float* x, int8_t* q, float* scale, int64_t cols, int64_t written) {
    __shared__ float peaks[32];
    float peak = 0;
    for (int64_t c = threadIdx.x; c < cols; c += THREADS) peak = fmaxf(peak, fabsf(x[c]));
    for (int offset = 16; offset; offset >>= 1) peak = fmaxf(peak, __shfl_xor_sync(~0u, peak, offset));
    if (threadIdx.x % 32 == 0) peaks[threadIdx.x / 32] = peak;
    __syncthreads();
    peak = peaks[threadIdx.x % 32];
    for (int offset = 16; offset; offset >>= 1) peak = fmaxf(peak, __shfl_xor_sync(~0u, peak, offset));
    if (threadIdx.x == 0) *scale = peak / 127;
    for (int64_t c = threadIdx.x; c < written; c += THREADS) q[c] = static_cast<int8_t>(rintf(x[c] * (127 / peak)));
}

__global__ void rows(const float* x, int8_t* q, float* scale, int64_t cols, int64_t written) {
    row(x + blockIdx.x * cols, q + blockIdx.x * cols, scale + blockIdx.x, cols, written);
}

}  // namespace quantise
