// Rotary embedding for Hopper and later. A thread rotates the same eight channel pairs of several neighbouring heads:
// it reads their angles once, and for each head one 16-byte vector of the lower and one of the upper half, all in
// flight together. Queries and keys go through the same grid; with few tokens a thread takes a single head.

#include <cstdint>

#include <cuda_bf16.h>

#include "problem.h"

#define THREADS 128          // tune: 64 128 256
#define HEADS_PER_THREAD 4   // tune: 1 2 4 8
#define SPREAD_UP_TO 128     // tune: 32 128 512
#define STREAM_STORES 0      // tune: 0 1

constexpr int HALF_VECTORS = KY_HEAD_DIM / 2 / 8;  // 16-byte vectors in half a head
constexpr int HEADS = KY_Q_HEADS + KY_KV_HEADS;

__device__ __forceinline__ float low_half(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high_half(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }

__device__ __forceinline__ uint32_t packed(float low, float high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
}

// A load that stays where it is written: the compiler may move a read-only one behind the wait for another.
__device__ __forceinline__ uint4 load_now(const uint4* from) {
    uint4 v;
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from)
                 : "memory");
    return v;
}

template <int WIDTH, int COUNT>
__global__ void __launch_bounds__(WIDTH)
    rotate(const uint4* __restrict__ q, const uint4* __restrict__ k, const uint4* __restrict__ cos_table,
           const uint4* __restrict__ sin_table, uint4* __restrict__ q_out, uint4* __restrict__ k_out, int64_t tokens) {
    static_assert(KY_Q_HEADS % COUNT == 0 && KY_KV_HEADS % COUNT == 0, "a thread's heads are all queries or all keys");
    constexpr int PER_TOKEN = HEADS / COUNT * HALF_VECTORS;
    const int64_t index = static_cast<int64_t>(blockIdx.x) * WIDTH + threadIdx.x;
    const bool inside = index < tokens * PER_TOKEN;  // threads past the end read the last token again
    const int64_t token = inside ? index / PER_TOKEN : tokens - 1;
    const int within = static_cast<int>(index % PER_TOKEN);
    const int vector = within % HALF_VECTORS;
    const int head = within / HALF_VECTORS * COUNT;

    const bool is_query = head < KY_Q_HEADS;
    const int64_t first =
        (is_query ? token * KY_Q_HEADS + head : token * KY_KV_HEADS + head - KY_Q_HEADS) * (2 * HALF_VECTORS) + vector;
    const uint4* from = (is_query ? q : k) + first;
    uint4* to = (is_query ? q_out : k_out) + first;

    uint4 angles[4];
    const int64_t angle = token * (KY_HEAD_DIM / 2 / 4) + vector * 2;
    angles[0] = load_now(cos_table + angle);
    angles[1] = load_now(cos_table + angle + 1);
    angles[2] = load_now(sin_table + angle);
    angles[3] = load_now(sin_table + angle + 1);
    __syncwarp();  // keeps these loads ahead of the others
    uint4 lows[COUNT], highs[COUNT];
#pragma unroll
    for (int h = 0; h < COUNT; ++h) {
        lows[h] = __ldcs(from + h * 2 * HALF_VECTORS);
        highs[h] = __ldcs(from + h * 2 * HALF_VECTORS + HALF_VECTORS);
    }
    const float* cosines = reinterpret_cast<const float*>(angles);
    const float* sines = reinterpret_cast<const float*>(angles + 2);

#pragma unroll
    for (int h = 0; h < COUNT; ++h) {
        uint32_t* low = reinterpret_cast<uint32_t*>(&lows[h]);
        uint32_t* high = reinterpret_cast<uint32_t*>(&highs[h]);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float l0 = low_half(low[j]), l1 = high_half(low[j]);
            const float h0 = low_half(high[j]), h1 = high_half(high[j]);
            const float c0 = cosines[2 * j], c1 = cosines[2 * j + 1];
            const float s0 = sines[2 * j], s1 = sines[2 * j + 1];
            low[j] = packed(l0 * c0 - h0 * s0, l1 * c1 - h1 * s1);
            high[j] = packed(h0 * c0 + l0 * s0, h1 * c1 + l1 * s1);
        }
        if (!inside) continue;
        if constexpr (STREAM_STORES) {
            __stcs(to + h * 2 * HALF_VECTORS, lows[h]);
            __stcs(to + h * 2 * HALF_VECTORS + HALF_VECTORS, highs[h]);
        } else {
            to[h * 2 * HALF_VECTORS] = lows[h];
            to[h * 2 * HALF_VECTORS + HALF_VECTORS] = highs[h];
        }
    }
}

template <int COUNT>
static void launch(const __nv_bfloat16* q, const __nv_bfloat16* k, const float* cos_table, const float* sin_table,
                   __nv_bfloat16* q_out, __nv_bfloat16* k_out, int64_t tokens, cudaStream_t stream) {
    const int64_t total = tokens * (HEADS / COUNT * HALF_VECTORS);
    const unsigned blocks = static_cast<unsigned>((total + THREADS - 1) / THREADS);
    rotate<THREADS, COUNT><<<blocks, THREADS, 0, stream>>>(
        reinterpret_cast<const uint4*>(q), reinterpret_cast<const uint4*>(k),
        reinterpret_cast<const uint4*>(cos_table), reinterpret_cast<const uint4*>(sin_table),
        reinterpret_cast<uint4*>(q_out), reinterpret_cast<uint4*>(k_out), tokens);
}

extern "C" int kernel_launch(const __nv_bfloat16* q, const __nv_bfloat16* k, const float* cos_table,
                             const float* sin_table, __nv_bfloat16* q_out, __nv_bfloat16* k_out, int64_t tokens,
                             int64_t half_dim, cudaStream_t stream) {
    if (half_dim * 2 != KY_HEAD_DIM) return static_cast<int>(cudaErrorInvalidValue);
    if (tokens == 0) return 0;
    if (tokens <= SPREAD_UP_TO) {
        launch<1>(q, k, cos_table, sin_table, q_out, k_out, tokens, stream);
    } else {
        launch<HEADS_PER_THREAD>(q, k, cos_table, sin_table, q_out, k_out, tokens, stream);
    }
    return static_cast<int>(cudaGetLastError());
}
