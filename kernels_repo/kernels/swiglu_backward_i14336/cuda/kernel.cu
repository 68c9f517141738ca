// SwiGLU's gradients for Hopper and later. Work is counted in 16-byte vectors of dy; a block takes a run of them, a thread
// HELD vectors a block's width apart, with all its loads of gradient, gate and up in flight before the first is used.
// With few tokens every thread takes one vector and blocks are small, so that more processors share the latency.

#include <cstdint>

#include <cuda_bf16.h>

#include "problem.h"

#define THREADS 128        // tune: 64 128 256
#define HELD 2             // tune: 1 2 4
#define SPREAD_THREADS 64  // tune: 32 64 128
#define SPREAD_UP_TO 64    // tune: 8 64 256
#define STREAM_STORES 0    // tune: 0 1

constexpr uint32_t VECTORS = KY_INTERMEDIATE / 8;

__device__ __forceinline__ float low_half(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high_half(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }

__device__ __forceinline__ uint32_t packed(float low, float high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
}

struct Gradients {
    float gate, up;
};

__device__ __forceinline__ Gradients gradients(float dy, float gate, float up) {
    // For a gate far below 0 the exponential would be infinite; the sigmoid is 0 to every digit long before.
    const float sigmoid = __fdividef(1.0f, 1.0f + __expf(fminf(-gate, 80.0f)));
    const float silu = gate * sigmoid;
    return {dy * up * fmaf(silu, 1.0f - sigmoid, sigmoid), dy * silu};
}

__device__ __forceinline__ void put(uint4* to, uint4 value) {
    if constexpr (STREAM_STORES) {
        __stcs(to, value);
    } else {
        *to = value;
    }
}

template <int WIDTH, int COUNT>
__global__ void __launch_bounds__(WIDTH)
    backward(const uint4* __restrict__ dy, const uint4* __restrict__ gate_up, uint4* __restrict__ dgate_up, int64_t total) {
    const int64_t first = static_cast<int64_t>(blockIdx.x) * (WIDTH * COUNT) + threadIdx.x;
    uint4 slopes[COUNT], gates[COUNT], ups[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        const int64_t at = first + i * WIDTH;
        if (at < total) {
            // A packed row is twice as long as a row of dy.
            const uint4* from = gate_up + at + at / VECTORS * VECTORS;
            slopes[i] = __ldcs(dy + at);
            gates[i] = __ldcs(from);
            ups[i] = __ldcs(from + VECTORS);
        }
    }
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        const int64_t at = first + i * WIDTH;
        if (at < total) {
            const uint32_t* d = reinterpret_cast<const uint32_t*>(&slopes[i]);
            uint32_t* g = reinterpret_cast<uint32_t*>(&gates[i]);
            uint32_t* u = reinterpret_cast<uint32_t*>(&ups[i]);
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const Gradients low = gradients(low_half(d[j]), low_half(g[j]), low_half(u[j]));
                const Gradients high = gradients(high_half(d[j]), high_half(g[j]), high_half(u[j]));
                g[j] = packed(low.gate, high.gate);
                u[j] = packed(low.up, high.up);
            }
            uint4* to = dgate_up + at + at / VECTORS * VECTORS;
            put(to, gates[i]);
            put(to + VECTORS, ups[i]);
        }
    }
}

extern "C" int kernel_launch(const __nv_bfloat16* dy, const __nv_bfloat16* gate_up, __nv_bfloat16* dgate_up,
                             int64_t tokens, int64_t packed_width, cudaStream_t stream) {
    if (packed_width != 2 * KY_INTERMEDIATE) return static_cast<int>(cudaErrorInvalidValue);
    if (tokens == 0) return 0;
    const int64_t total = tokens * VECTORS;
    const uint4* slopes = reinterpret_cast<const uint4*>(dy);
    const uint4* from = reinterpret_cast<const uint4*>(gate_up);
    uint4* to = reinterpret_cast<uint4*>(dgate_up);
    if (tokens <= SPREAD_UP_TO) {
        const unsigned blocks = static_cast<unsigned>((total + SPREAD_THREADS - 1) / SPREAD_THREADS);
        backward<SPREAD_THREADS, 1><<<blocks, SPREAD_THREADS, 0, stream>>>(slopes, from, to, total);
    } else {
        const unsigned blocks = static_cast<unsigned>((total + THREADS * HELD - 1) / (THREADS * HELD));
        backward<THREADS, HELD><<<blocks, THREADS, 0, stream>>>(slopes, from, to, total);
    }
    return static_cast<int>(cudaGetLastError());
}
