// Cross-entropy for Hopper and later. A row of 250 KiB is spread over a cluster of blocks, so that one token already
// occupies several processors and, with the values as set, a thread has its whole share of the row in flight at once.
// Every thread keeps a running maximum and sum; warps join theirs by shuffles and leave them in the shared memory of the
// cluster's first block, which finishes the row.

#include <cfloat>
#include <cooperative_groups.h>
#include <cstdint>

#include <cuda_bf16.h>

#include "problem.h"

#define CLUSTER 8   // tune: 2 4 8
#define THREADS 256 // tune: 128 256 512
#define HELD 8      // tune: 2 4 8

namespace cg = cooperative_groups;

constexpr int VECTORS = KY_VOCAB / 8;
constexpr int SHARE = (VECTORS + CLUSTER - 1) / CLUSTER;  // vectors of a block
constexpr int WARPS = THREADS / 32;
constexpr float LOG2_E = 1.4426950408889634f;
constexpr uint32_t NOTHING = 0xff80ff80u;  // two times minus infinity

__device__ __forceinline__ float low_half(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high_half(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }

__device__ __forceinline__ float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ uint32_t larger_halves(uint32_t a, uint32_t b) {
    const __nv_bfloat162 larger =
        __hmax2(*reinterpret_cast<const __nv_bfloat162*>(&a), *reinterpret_cast<const __nv_bfloat162*>(&b));
    return *reinterpret_cast<const uint32_t*>(&larger);
}

// Σ e^x over some elements, as total * 2^maximum with the maximum in powers of two.
struct Running {
    float maximum, total;

    __device__ __forceinline__ void join(Running other) {
        const float largest = fmaxf(maximum, other.maximum);
        total = total * exp2_fast(maximum - largest) + other.total * exp2_fast(other.maximum - largest);
        maximum = largest;
    }

    __device__ __forceinline__ void join_warp() {
#pragma unroll
        for (int offset = 16; offset > 0; offset /= 2) {
            join({__shfl_xor_sync(~0u, maximum, offset), __shfl_xor_sync(~0u, total, offset)});
        }
    }
};

__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS)
    cross_entropy(const uint4* __restrict__ logits, const int64_t* __restrict__ targets, float* __restrict__ loss,
                  float* __restrict__ lse) {
    __shared__ float2 parts[CLUSTER * WARPS];
    cg::cluster_group cluster = cg::this_cluster();
    const int64_t token = blockIdx.x / CLUSTER;
    const int rank = static_cast<int>(blockIdx.x % CLUSTER);
    const int begin = rank * SHARE, end = min(begin + SHARE, VECTORS);
    const uint4* row = logits + token * VECTORS;
    const bool finishes = rank == 0 && threadIdx.x == 0;
    const int64_t target = finishes ? __ldg(targets + token) : 0;

    Running running = {-FLT_MAX, 0.0f};
    float target_logit = 0.0f;
    for (int base = begin; base < end; base += THREADS * HELD) {
        uint4 held[HELD];
#pragma unroll
        for (int i = 0; i < HELD; ++i) {
            const int at = base + i * THREADS + static_cast<int>(threadIdx.x);
            held[i] = at < end ? __ldcs(row + at) : make_uint4(NOTHING, NOTHING, NOTHING, NOTHING);
        }
        if (finishes && base == begin) {
            target_logit = __bfloat162float(reinterpret_cast<const __nv_bfloat16*>(row)[target]);
        }
        uint32_t largest = NOTHING;
#pragma unroll
        for (int i = 0; i < HELD; ++i) {
            const uint32_t* pairs = reinterpret_cast<const uint32_t*>(&held[i]);
#pragma unroll
            for (int j = 0; j < 4; ++j) largest = larger_halves(largest, pairs[j]);
        }
        const float maximum = fmaxf(running.maximum, fmaxf(low_half(largest), high_half(largest)) * LOG2_E);
        float totals[2] = {running.total * exp2_fast(running.maximum - maximum), 0.0f};
#pragma unroll
        for (int i = 0; i < HELD; ++i) {
            const uint32_t* pairs = reinterpret_cast<const uint32_t*>(&held[i]);
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                totals[0] += exp2_fast(fmaf(low_half(pairs[j]), LOG2_E, -maximum));
                totals[1] += exp2_fast(fmaf(high_half(pairs[j]), LOG2_E, -maximum));
            }
        }
        running = {maximum, totals[0] + totals[1]};
    }
    running.join_warp();

    cluster.sync();  // the first block has to be running before anything is written into its shared memory
    if (threadIdx.x % 32 == 0) {
        *cluster.map_shared_rank(parts + rank * WARPS + threadIdx.x / 32, 0) =
            make_float2(running.maximum, running.total);
    }
    cluster.sync();
    if (rank == 0 && threadIdx.x < 32) {
        running = {-FLT_MAX, 0.0f};
        for (int i = static_cast<int>(threadIdx.x); i < CLUSTER * WARPS; i += 32) {
            running.join({parts[i].x, parts[i].y});
        }
        running.join_warp();
        if (finishes) {
            const float result = (running.maximum + log2f(running.total)) * (1.0f / LOG2_E);
            lse[token] = result;
            loss[token] = result - target_logit;
        }
    }
}

extern "C" int kernel_launch(const __nv_bfloat16* logits, const int64_t* targets, float* loss, float* lse,
                             int64_t tokens, cudaStream_t stream) {
    if (tokens == 0) return 0;
    cross_entropy<<<static_cast<unsigned>(tokens * CLUSTER), THREADS, 0, stream>>>(
        reinterpret_cast<const uint4*>(logits), targets, loss, lse);
    return static_cast<int>(cudaGetLastError());
}
