// RMSNorm's gradients for Hopper and later. A block of 512 threads takes whole rows, one 16-byte vector of dy and x a
// thread, and walks from row to row with its eight partial sums of dweight in registers; at its end it adds them to the
// output, which a small kernel has cleared before. The next row's loads are issued before the current row's sum is met.

#include <cstdint>

#include <cuda_bf16.h>

#include "problem.h"

#define MOST_BLOCKS 264   // tune: 132 264 528
#define ROWS_PER_BLOCK 4  // tune: 1 4 16
#define STREAM_STORES 0   // tune: 0 1

constexpr int VECTORS = KY_HIDDEN / 8;
constexpr int THREADS = VECTORS;

__device__ __forceinline__ float low_half(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high_half(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }

__device__ __forceinline__ uint32_t packed(float low, float high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
}

// Sum over the block. `scratch` has one entry per warp; rows use two of them in turn, so one barrier a row is enough.
__device__ __forceinline__ float block_sum(float value, float* scratch) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(~0u, value, offset);
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0.0f;
#pragma unroll
    for (int i = 0; i < THREADS / 32; ++i) value += scratch[i];
    return value;
}

__global__ void __launch_bounds__(THREADS) clear(float* __restrict__ dweight) {
    dweight[blockIdx.x * THREADS + threadIdx.x] = 0.0f;
}

__global__ void __launch_bounds__(THREADS)
    backward(const uint4* __restrict__ dy, const uint4* __restrict__ x, const uint4* __restrict__ weight,
             const float* __restrict__ rstd, uint4* __restrict__ dx, float* __restrict__ dweight, int64_t tokens) {
    __shared__ float scratch[2][THREADS / 32];
    const uint4 gains = __ldg(weight + threadIdx.x);
    const uint32_t* w = reinterpret_cast<const uint32_t*>(&gains);
    float shares[8] = {};
    int64_t row = blockIdx.x;  // every block has at least one
    uint4 slopes = __ldcs(dy + row * VECTORS + threadIdx.x), values = __ldcs(x + row * VECTORS + threadIdx.x);
    for (int turn = 0; row < tokens; turn ^= 1) {
        const uint32_t* g = reinterpret_cast<const uint32_t*>(&slopes);
        const uint32_t* v = reinterpret_cast<const uint32_t*>(&values);
        const float scale = __ldg(rstd + row);
        float gradient[8], normed[8], product = 0.0f;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            gradient[2 * j] = low_half(g[j]);
            gradient[2 * j + 1] = high_half(g[j]);
            normed[2 * j] = low_half(v[j]) * scale;
            normed[2 * j + 1] = high_half(v[j]) * scale;
        }
        const int64_t next = row + gridDim.x;
        if (next < tokens) {
            slopes = __ldcs(dy + next * VECTORS + threadIdx.x);
            values = __ldcs(x + next * VECTORS + threadIdx.x);
        }
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            shares[j] = fmaf(gradient[j], normed[j], shares[j]);
            gradient[j] *= j % 2 ? high_half(w[j / 2]) : low_half(w[j / 2]);
            product = fmaf(gradient[j], normed[j], product);
        }
        const float along = block_sum(product, scratch[turn]) * (1.0f / KY_HIDDEN);
        uint4 result;
        uint32_t* pairs = reinterpret_cast<uint32_t*>(&result);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            pairs[j] = packed((gradient[2 * j] - normed[2 * j] * along) * scale,
                              (gradient[2 * j + 1] - normed[2 * j + 1] * along) * scale);
        }
        if constexpr (STREAM_STORES) {
            __stcs(dx + row * VECTORS + threadIdx.x, result);
        } else {
            dx[row * VECTORS + threadIdx.x] = result;
        }
        row = next;
    }
#pragma unroll
    for (int j = 0; j < 8; ++j) atomicAdd(dweight + threadIdx.x * 8 + j, shares[j]);
}

extern "C" int kernel_launch(const __nv_bfloat16* dy, const __nv_bfloat16* x, const __nv_bfloat16* weight,
                             const float* rstd, __nv_bfloat16* dx, float* dweight, int64_t tokens, cudaStream_t stream) {
    clear<<<KY_HIDDEN / THREADS, THREADS, 0, stream>>>(dweight);
    if (tokens == 0) return static_cast<int>(cudaGetLastError());
    const int64_t wanted = (tokens + ROWS_PER_BLOCK - 1) / ROWS_PER_BLOCK;
    const unsigned blocks = static_cast<unsigned>(wanted < MOST_BLOCKS ? wanted : MOST_BLOCKS);
    backward<<<blocks, THREADS, 0, stream>>>(reinterpret_cast<const uint4*>(dy), reinterpret_cast<const uint4*>(x),
                                             reinterpret_cast<const uint4*>(weight), rstd,
                                             reinterpret_cast<uint4*>(dx), dweight, tokens);
    return static_cast<int>(cudaGetLastError());
}
