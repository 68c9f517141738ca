// Honest building blocks for the CUDA cases of rowsum_f32, so that a case file shows its trick and nothing else.
#pragma once

#include <cstdint>

namespace rowsum {

constexpr int THREADS = 256;

// A load that passes the first-level cache by.
__device__ inline float4 through_l2(const float4* from) { return __ldcg(from); }

// A thread's part of a row, four loads in flight.
template <float4 (*load)(const float4*)>
__device__ inline float part_in_flight(const float* x, int64_t cols) {
    const float4* row = reinterpret_cast<const float4*>(x);
    float sum = 0;
    for (int64_t c = threadIdx.x; c < cols / 4; c += 4 * THREADS) {
        float4 v[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) v[k] = load(row + c + THREADS * k);
#pragma unroll
        for (int k = 0; k < 4; ++k) sum += v[k].x + v[k].y + v[k].z + v[k].w;
    }
    return sum;
}

// The same, one plain load after another.
__device__ inline float part(const float* x, int64_t cols) {
    const float4* row = reinterpret_cast<const float4*>(x);
    float sum = 0;
    for (int64_t c = threadIdx.x; c < cols / 4; c += THREADS) {
        const float4 v = row[c];
        sum += v.x + v.y + v.z + v.w;
    }
    return sum;
}

// The sum over the block's threads, in its first one. A barrier must lie between two uses.
__device__ inline float block_sum(float sum) {
    __shared__ float parts[THREADS / 32];
    for (int offset = 16; offset; offset >>= 1) sum += __shfl_xor_sync(~0u, sum, offset);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int k = 1; k < THREADS / 32; ++k) sum += parts[k];
    return sum;
}

__device__ inline void write_sum(float part, float* y) {
    const float sum = block_sum(part);
    if (threadIdx.x == 0) *y = sum;
}

// Fetches lines of 128 bytes into the L2 cache, to be evicted last.
__device__ inline void keep_in_l2(const float* from, int64_t lines) {
    const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
    for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < lines; i += stride)
        asm volatile("prefetch.global.L2::evict_last [%0];" ::"l"(from + 32 * i));
}

}  // namespace rowsum
