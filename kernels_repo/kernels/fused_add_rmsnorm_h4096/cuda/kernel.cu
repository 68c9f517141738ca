// Residual addition and RMSNorm for Hopper and later. Both inputs of a row are read once, 16 bytes a load, all loads of
// a thread in flight together; the rounded sum stays in registers from its store to its normalisation. With few rows a
// row takes a block of 512 threads, one vector each, and the gain is fetched beside it.

#include <cstdint>

#include <cuda_bf16.h>

#include "problem.h"

#define THREADS_PER_ROW 128 // tune: 64 128 256
#define SPREAD_UP_TO 512    // tune: 132 264 512 1024
#define BULK_EARLY_GAIN 0   // tune: 0 1
#define STREAM_STORES 0     // tune: 0 1

constexpr float EPSILON = 1e-5f;
constexpr int VECTORS = KY_HIDDEN / 8;
constexpr int SPREAD_THREADS = VECTORS;

__device__ __forceinline__ float low_half(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high_half(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }

__device__ __forceinline__ uint32_t packed(float low, float high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
}

// A load that stays where it is written: the compiler may move a read-only one behind the barrier, and its latency with it.
__device__ __forceinline__ uint4 load_now(const uint4* from) {
    uint4 v;
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from)
                 : "memory");
    return v;
}

// Sum over the WIDTH threads (whole warps) that share a row. `scratch` has one entry per warp of the block.
template <int WIDTH>
__device__ __forceinline__ float row_sum(float value, float* scratch) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(~0u, value, offset);
    if constexpr (WIDTH > 32) {
        constexpr int WARPS = WIDTH / 32;
        const int warp = threadIdx.x / 32;
        if (threadIdx.x % 32 == 0) scratch[warp] = value;
        __syncthreads();
        value = 0.0f;
#pragma unroll
        for (int i = 0; i < WARPS; ++i) value += scratch[warp / WARPS * WARPS + i];
    }
    return value;
}

__device__ __forceinline__ void put(uint4* to, uint4 value) {
    if constexpr (STREAM_STORES) {
        __stcs(to, value);
    } else {
        *to = value;
    }
}

template <int WIDTH, int ROWS, int EARLY_GAIN>
__global__ void __launch_bounds__(WIDTH* ROWS)
    add_and_normalise(const uint4* __restrict__ x, const uint4* __restrict__ residual, const uint4* __restrict__ weight,
                      uint4* __restrict__ y, uint4* __restrict__ residual_out, int64_t tokens) {
    constexpr int HELD = VECTORS / WIDTH;
    __shared__ float scratch[WIDTH * ROWS / 32];
    const int lane = threadIdx.x % WIDTH;
    const int64_t row = static_cast<int64_t>(blockIdx.x) * ROWS + threadIdx.x / WIDTH;
    const bool inside = row < tokens;  // the last block may have rows to spare; all its threads meet at the barrier
    const int64_t first = row * VECTORS + lane;

    uint4 values[HELD], residuals[HELD], gains[HELD];
    if constexpr (EARLY_GAIN) {
#pragma unroll
        for (int i = 0; i < HELD; ++i) gains[i] = load_now(weight + lane + i * WIDTH);
        __syncwarp();  // keeps these loads, which nothing waits for soon, ahead of the others
    }
#pragma unroll
    for (int i = 0; i < HELD; ++i) {
        values[i] = inside ? __ldcs(x + first + i * WIDTH) : make_uint4(0, 0, 0, 0);
        residuals[i] = inside ? __ldcs(residual + first + i * WIDTH) : make_uint4(0, 0, 0, 0);
    }

    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < HELD; ++i) {
        uint32_t* pairs = reinterpret_cast<uint32_t*>(&values[i]);
        const uint32_t* added = reinterpret_cast<const uint32_t*>(&residuals[i]);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            pairs[j] = packed(low_half(pairs[j]) + low_half(added[j]), high_half(pairs[j]) + high_half(added[j]));
            const float low = low_half(pairs[j]), high = high_half(pairs[j]);  // as rounded
            squares = fmaf(low, low, squares);
            squares = fmaf(high, high, squares);
        }
        if (inside) put(residual_out + first + i * WIDTH, values[i]);
    }
    const float inverse_rms = rsqrtf(row_sum<WIDTH>(squares, scratch) * (1.0f / KY_HIDDEN) + EPSILON);
    if (!inside) return;

#pragma unroll
    for (int i = 0; i < HELD; ++i) {
        if constexpr (!EARLY_GAIN) gains[i] = __ldg(weight + lane + i * WIDTH);
        uint32_t* pairs = reinterpret_cast<uint32_t*>(&values[i]);
        const uint32_t* gain = reinterpret_cast<const uint32_t*>(&gains[i]);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            pairs[j] = packed(low_half(pairs[j]) * inverse_rms * low_half(gain[j]),
                              high_half(pairs[j]) * inverse_rms * high_half(gain[j]));
        }
        put(y + first + i * WIDTH, values[i]);
    }
}

extern "C" int kernel_launch(const __nv_bfloat16* x, const __nv_bfloat16* residual, const __nv_bfloat16* weight,
                             __nv_bfloat16* y, __nv_bfloat16* residual_out, int64_t tokens, cudaStream_t stream) {
    if (tokens == 0) return 0;
    const uint4* from = reinterpret_cast<const uint4*>(x);
    const uint4* added = reinterpret_cast<const uint4*>(residual);
    const uint4* gains = reinterpret_cast<const uint4*>(weight);
    uint4* to = reinterpret_cast<uint4*>(y);
    uint4* sum = reinterpret_cast<uint4*>(residual_out);
    if (tokens <= SPREAD_UP_TO) {
        add_and_normalise<SPREAD_THREADS, 1, 1>
            <<<static_cast<unsigned>(tokens), SPREAD_THREADS, 0, stream>>>(from, added, gains, to, sum, tokens);
    } else {
        constexpr int ROWS = THREADS_PER_ROW < 128 ? 128 / THREADS_PER_ROW : 1;
        const unsigned blocks = static_cast<unsigned>((tokens + ROWS - 1) / ROWS);
        add_and_normalise<THREADS_PER_ROW, ROWS, BULK_EARLY_GAIN>
            <<<blocks, THREADS_PER_ROW * ROWS, 0, stream>>>(from, added, gains, to, sum, tokens);
    }
    return static_cast<int>(cudaGetLastError());
}
