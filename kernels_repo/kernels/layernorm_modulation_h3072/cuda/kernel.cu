// LayerNorm with modulation for Hopper and later. A token is read once into registers, 16 bytes a load. Its mean and
// variance come from one reduction: the sums are taken about the token's first channel, which is near enough to the
// mean that nothing cancels. 3072 channels are 384 vectors, so blocks are multiples of 96 or 128 threads. With few
// tokens a token takes 384 threads, one vector each, and the modulation is fetched beside it.

#include <cstdint>

#include <cuda_bf16.h>

#include "problem.h"

#define THREADS_PER_TOKEN 128 // tune: 32 64 96 128 192
#define SPREAD_UP_TO 512      // tune: 132 264 512 1024
#define BULK_EARLY_MODULATION 0 // tune: 0 1
#define STREAM_STORES 0       // tune: 0 1

constexpr float EPSILON = 1e-6f;
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

struct Sums {
    float values, squares;
};

// Sums over the WIDTH threads (whole warps) that share a token. `scratch` has one entry per warp of the block.
template <int WIDTH>
__device__ __forceinline__ Sums token_sums(Sums sums, float2* scratch) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        sums.values += __shfl_xor_sync(~0u, sums.values, offset);
        sums.squares += __shfl_xor_sync(~0u, sums.squares, offset);
    }
    if constexpr (WIDTH > 32) {
        constexpr int WARPS = WIDTH / 32;
        const int warp = threadIdx.x / 32;
        if (threadIdx.x % 32 == 0) scratch[warp] = make_float2(sums.values, sums.squares);
        __syncthreads();
        sums = {0.0f, 0.0f};
#pragma unroll
        for (int i = 0; i < WARPS; ++i) {
            const float2 part = scratch[warp / WARPS * WARPS + i];
            sums.values += part.x;
            sums.squares += part.y;
        }
    }
    return sums;
}

template <int WIDTH, int TOKENS, int EARLY_MODULATION>
__global__ void __launch_bounds__(WIDTH* TOKENS)
    modulate(const uint4* __restrict__ x, const uint4* __restrict__ scale, const uint4* __restrict__ shift,
             uint4* __restrict__ y, unsigned tokens, unsigned seq) {
    constexpr int HELD = VECTORS / WIDTH;
    __shared__ float2 scratch[WIDTH * TOKENS / 32];
    const int lane = threadIdx.x % WIDTH;
    const unsigned token = blockIdx.x * TOKENS + threadIdx.x / WIDTH;
    const bool inside = token < tokens;  // the last block may have room to spare; all its threads meet at the barrier
    const int64_t row = static_cast<int64_t>(token) * VECTORS;
    const int64_t modulation = static_cast<int64_t>(inside ? token / seq : 0) * VECTORS + lane;

    uint4 values[HELD], scales[HELD], shifts[HELD];
    if constexpr (EARLY_MODULATION) {
#pragma unroll
        for (int i = 0; i < HELD; ++i) {
            scales[i] = load_now(scale + modulation + i * WIDTH);
            shifts[i] = load_now(shift + modulation + i * WIDTH);
        }
        __syncwarp();  // keeps these loads, which nothing waits for soon, ahead of the others
    }
#pragma unroll
    for (int i = 0; i < HELD; ++i) values[i] = inside ? __ldcs(x + row + lane + i * WIDTH) : make_uint4(0, 0, 0, 0);
    const float centre = inside ? low_half(__ldg(reinterpret_cast<const uint32_t*>(x + row))) : 0.0f;

    Sums sums = {0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < HELD; ++i) {
        const uint32_t* pairs = reinterpret_cast<const uint32_t*>(&values[i]);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float low = low_half(pairs[j]) - centre, high = high_half(pairs[j]) - centre;
            sums.values += low + high;
            sums.squares = fmaf(low, low, sums.squares);
            sums.squares = fmaf(high, high, sums.squares);
        }
    }
    sums = token_sums<WIDTH>(sums, scratch);
    if (!inside) return;
    const float offset = sums.values * (1.0f / KY_HIDDEN);
    const float mean = centre + offset;
    const float variance = fmaxf(sums.squares * (1.0f / KY_HIDDEN) - offset * offset, 0.0f);
    const float inverse = rsqrtf(variance + EPSILON);

#pragma unroll
    for (int i = 0; i < HELD; ++i) {
        if constexpr (!EARLY_MODULATION) {
            scales[i] = __ldg(scale + modulation + i * WIDTH);
            shifts[i] = __ldg(shift + modulation + i * WIDTH);
        }
        uint32_t* pairs = reinterpret_cast<uint32_t*>(&values[i]);
        const uint32_t* gain = reinterpret_cast<const uint32_t*>(&scales[i]);
        const uint32_t* added = reinterpret_cast<const uint32_t*>(&shifts[i]);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float low = (low_half(pairs[j]) - mean) * inverse, high = (high_half(pairs[j]) - mean) * inverse;
            pairs[j] = packed(fmaf(low, 1.0f + low_half(gain[j]), low_half(added[j])),
                              fmaf(high, 1.0f + high_half(gain[j]), high_half(added[j])));
        }
        uint4* to = y + row + lane + i * WIDTH;
        if constexpr (STREAM_STORES) {
            __stcs(to, values[i]);
        } else {
            *to = values[i];
        }
    }
}

extern "C" int kernel_launch(const __nv_bfloat16* x, const __nv_bfloat16* scale, const __nv_bfloat16* shift,
                             __nv_bfloat16* y, int64_t batch, int64_t seq, cudaStream_t stream) {
    if (batch * seq == 0) return 0;
    if (batch * seq > 0x7fffffff) return static_cast<int>(cudaErrorInvalidValue);
    const unsigned tokens = static_cast<unsigned>(batch * seq), length = static_cast<unsigned>(seq);
    const uint4* from = reinterpret_cast<const uint4*>(x);
    const uint4* scales = reinterpret_cast<const uint4*>(scale);
    const uint4* shifts = reinterpret_cast<const uint4*>(shift);
    uint4* to = reinterpret_cast<uint4*>(y);
    if (tokens <= SPREAD_UP_TO) {
        modulate<SPREAD_THREADS, 1, 1>
            <<<tokens, SPREAD_THREADS, 0, stream>>>(from, scales, shifts, to, tokens, length);
    } else {
        constexpr int TOKENS = THREADS_PER_TOKEN < 96 ? 128 / THREADS_PER_TOKEN : 1;
        const unsigned blocks = (tokens + TOKENS - 1) / TOKENS;
        modulate<THREADS_PER_TOKEN, TOKENS, BULK_EARLY_MODULATION>
            <<<blocks, THREADS_PER_TOKEN * TOKENS, 0, stream>>>(from, scales, shifts, to, tokens, length);
    }
    return static_cast<int>(cudaGetLastError());
}
