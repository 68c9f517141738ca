// Soft-capped softmax for Hopper and later. A row is read once and kept in registers: by a fraction of a block, by a
// block, or, when it is too long, by a cluster of eight blocks that exchange their sums through shared memory.
//
// Two exponentials and a division per element would keep the special-function units busier than the memory, so
// tanh is a polynomial where a vector's arguments are at most 1 in magnitude, and goes through an exponential elsewhere.

#include <cooperative_groups.h>
#include <cstdint>

#include <cuda_bf16.h>

#include "problem.h"

#define VECTORS_PER_THREAD 4 // tune: 1 2 4
#define POLYNOMIAL_TANH 1    // tune: 0 1
#define STREAM_STORES 0      // tune: 0 1

namespace cg = cooperative_groups;

constexpr int CLUSTER = 8;
constexpr int LOOP_THREADS = 256;
constexpr float LOG2_E = 1.4426950408889634f;
// Up to this cap the sum of e^z over any row that fits in memory stays finite, and no maximum is needed.
constexpr float SAFE_CAP = 60.0f;

__device__ __forceinline__ float low_half(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high_half(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }

__device__ __forceinline__ uint32_t packed(float low, float high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
}

__device__ __forceinline__ float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// The exponent, in powers of two, that a raw score gets: cap * tanh(scale * x / cap) * log2(e).
struct Capped {
    float ratio;  // scale / cap
    float limit;  // cap * log2(e)

    __device__ __forceinline__ float any(float x) const {
        const float argument = fminf(2.0f * LOG2_E * ratio * x, 100.0f);
        return limit - __fdividef(2.0f * limit, exp2_fast(argument) + 1.0f);
    }

    // |ratio * x| <= 1. Error of tanh 6e-7.
    __device__ __forceinline__ float small(float x) const {
        const float u = ratio * x, square = u * u;
        float t = fmaf(square, -0.0030804093f, 0.016776776f);
        t = fmaf(t, square, -0.051635459f);
        t = fmaf(t, square, 0.13282514f);
        t = fmaf(t, square, -0.3332918f);
        t = fmaf(t, square, 0.99999944f);
        return limit * u * t;
    }

    __device__ __forceinline__ void vector(const uint4& scores, float* exponents) const {
        const uint32_t* pairs = reinterpret_cast<const uint32_t*>(&scores);
        bool all_small = POLYNOMIAL_TANH != 0;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            all_small &= fabsf(low_half(pairs[j]) * ratio) <= 1.0f && fabsf(high_half(pairs[j]) * ratio) <= 1.0f;
        }
        if (all_small) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                exponents[2 * j] = small(low_half(pairs[j]));
                exponents[2 * j + 1] = small(high_half(pairs[j]));
            }
        } else {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                exponents[2 * j] = any(low_half(pairs[j]));
                exponents[2 * j + 1] = any(high_half(pairs[j]));
            }
        }
    }
};

struct Add {
    __device__ __forceinline__ float operator()(float a, float b) const { return a + b; }
    static constexpr float NEUTRAL = 0.0f;
};

struct Largest {
    __device__ __forceinline__ float operator()(float a, float b) const { return fmaxf(a, b); }
    static constexpr float NEUTRAL = -3.0e38f;
};

// Reduces over the WIDTH threads (whole warps) of a row and, for BLOCKS > 1, over the blocks of the cluster. `scratch`
// has one entry per warp of the block and one more; each call needs a scratch of its own.
template <class Operation, int WIDTH, int BLOCKS>
__device__ __forceinline__ float reduce(float value, float* scratch, Operation operation) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) value = operation(value, __shfl_xor_sync(~0u, value, offset));
    if constexpr (WIDTH > 32) {
        constexpr int WARPS = WIDTH / 32;
        const int warp = threadIdx.x / 32;
        if (threadIdx.x % 32 == 0) scratch[warp] = value;
        __syncthreads();
        value = Operation::NEUTRAL;
#pragma unroll
        for (int i = 0; i < WARPS; ++i) value = operation(value, scratch[warp / WARPS * WARPS + i]);
    }
    if constexpr (BLOCKS > 1) {
        cg::cluster_group cluster = cg::this_cluster();
        float* own = scratch + WIDTH / 32;
        if (threadIdx.x == 0) *own = value;
        cluster.sync();
        value = Operation::NEUTRAL;
#pragma unroll
        for (int i = 0; i < BLOCKS; ++i) value = operation(value, *cluster.map_shared_rank(own, i));
        cluster.sync();  // no block may leave, or write `own` again, while others read it
    }
    return value;
}

// ROWS rows per block of WIDTH threads each, HELD vectors per thread; or, for BLOCKS > 1, one row per cluster.
template <int WIDTH, int ROWS, int HELD, int BLOCKS>
__device__ __forceinline__ void softmax_in_registers(const uint4* __restrict__ scores, uint4* __restrict__ probs,
                                                     Capped capped, bool need_maximum, int64_t rows, int vectors) {
    static_assert(ROWS == 1 || BLOCKS == 1);
    __shared__ float scratch[2][WIDTH * ROWS / 32 + 1];
    const int64_t row = BLOCKS > 1 ? blockIdx.x / BLOCKS : static_cast<int64_t>(blockIdx.x) * ROWS + threadIdx.x / WIDTH;
    const int first = (BLOCKS > 1 ? blockIdx.x % BLOCKS * (WIDTH * HELD) : 0) + threadIdx.x % WIDTH;
    const bool inside = row < rows;
    const uint4* from = scores + row * vectors;

    uint4 raw[HELD];
#pragma unroll
    for (int i = 0; i < HELD; ++i) {
        const int at = first + i * WIDTH;
        raw[i] = inside && at < vectors ? __ldcs(from + at) : make_uint4(0, 0, 0, 0);
    }
    float values[HELD * 8];
#pragma unroll
    for (int i = 0; i < HELD; ++i) {
        capped.vector(raw[i], values + i * 8);
        if (first + i * WIDTH >= vectors) {
#pragma unroll
            for (int j = 0; j < 8; ++j) values[i * 8 + j] = Largest::NEUTRAL;  // its exponential is 0
        }
    }
    float shift = 0.0f;
    if (need_maximum) {
        float largest = Largest::NEUTRAL;
#pragma unroll
        for (int i = 0; i < HELD * 8; ++i) largest = fmaxf(largest, values[i]);
        shift = reduce<Largest, WIDTH, BLOCKS>(largest, scratch[0], Largest());
    }
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < HELD * 8; ++i) {
        values[i] = exp2_fast(values[i] - shift);
        total += values[i];
    }
    const float inverse = 1.0f / reduce<Add, WIDTH, BLOCKS>(total, scratch[1], Add());
    if (!inside) return;

#pragma unroll
    for (int i = 0; i < HELD; ++i) {
        const int at = first + i * WIDTH;
        if (at < vectors) {
            const float* v = values + i * 8;
            const uint4 result = make_uint4(packed(v[0] * inverse, v[1] * inverse), packed(v[2] * inverse, v[3] * inverse),
                                            packed(v[4] * inverse, v[5] * inverse), packed(v[6] * inverse, v[7] * inverse));
            if constexpr (STREAM_STORES) {
                __stcs(probs + row * vectors + at, result);
            } else {
                probs[row * vectors + at] = result;
            }
        }
    }
}

template <int WIDTH, int ROWS, int HELD>
__global__ void __launch_bounds__(WIDTH* ROWS)
    softmax_block(const uint4* __restrict__ scores, uint4* __restrict__ probs, Capped capped, bool need_maximum,
                  int64_t rows, int vectors) {
    softmax_in_registers<WIDTH, ROWS, HELD, 1>(scores, probs, capped, need_maximum, rows, vectors);
}

template <int WIDTH, int HELD>
__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(WIDTH)
    softmax_cluster(const uint4* __restrict__ scores, uint4* __restrict__ probs, Capped capped, bool need_maximum,
                    int64_t rows, int vectors) {
    softmax_in_registers<WIDTH, 1, HELD, CLUSTER>(scores, probs, capped, need_maximum, rows, vectors);
}

// Any row length and alignment: a block walks over its row once for the maximum (if needed), the sum, and the result.
__global__ void __launch_bounds__(LOOP_THREADS)
    softmax_loop(const __nv_bfloat16* __restrict__ scores, __nv_bfloat16* __restrict__ probs, Capped capped,
                 bool need_maximum, int64_t cols) {
    __shared__ float scratch[2][LOOP_THREADS / 32 + 1];
    const __nv_bfloat16* from = scores + blockIdx.x * cols;
    __nv_bfloat16* to = probs + blockIdx.x * cols;
    float shift = 0.0f;
    if (need_maximum) {
        float largest = Largest::NEUTRAL;
        for (int64_t c = threadIdx.x; c < cols; c += LOOP_THREADS) {
            largest = fmaxf(largest, capped.any(__bfloat162float(from[c])));
        }
        shift = reduce<Largest, LOOP_THREADS, 1>(largest, scratch[0], Largest());
    }
    float total = 0.0f;
    for (int64_t c = threadIdx.x; c < cols; c += LOOP_THREADS) {
        total += exp2_fast(capped.any(__bfloat162float(from[c])) - shift);
    }
    const float inverse = 1.0f / reduce<Add, LOOP_THREADS, 1>(total, scratch[1], Add());
    for (int64_t c = threadIdx.x; c < cols; c += LOOP_THREADS) {
        to[c] = __float2bfloat16(exp2_fast(capped.any(__bfloat162float(from[c])) - shift) * inverse);
    }
}

struct Launch {
    const uint4* scores;
    uint4* probs;
    Capped capped;
    bool need_maximum;
    int64_t rows;
    int vectors;
    cudaStream_t stream;

    template <int WIDTH, int HELD>
    void block() const {
        constexpr int ROWS = WIDTH < 128 ? 128 / WIDTH : 1;
        const unsigned blocks = static_cast<unsigned>((rows + ROWS - 1) / ROWS);
        softmax_block<WIDTH, ROWS, HELD>
            <<<blocks, WIDTH * ROWS, 0, stream>>>(scores, probs, capped, need_maximum, rows, vectors);
    }

    // The fewest vectors per thread with which WIDTH threads hold a row.
    template <int WIDTH>
    void block_of() const {
        if (vectors <= WIDTH) {
            block<WIDTH, 1>();
        } else if (vectors <= WIDTH * 2) {
            block<WIDTH, 2>();
        } else {
            block<WIDTH, 4>();
        }
    }

    template <int WIDTH>
    void cluster() const {
        const unsigned blocks = static_cast<unsigned>(rows * CLUSTER);
        softmax_cluster<WIDTH, 4><<<blocks, WIDTH, 0, stream>>>(scores, probs, capped, need_maximum, rows, vectors);
    }
};

extern "C" int kernel_launch(const __nv_bfloat16* scores, float scale, float cap, __nv_bfloat16* probs, int64_t rows,
                             int64_t cols, cudaStream_t stream) {
    if (rows == 0 || cols == 0) return 0;
    const Capped capped{scale / cap, cap * LOG2_E};
    const bool need_maximum = cap > SAFE_CAP;
    const bool aligned = (reinterpret_cast<uintptr_t>(scores) | reinterpret_cast<uintptr_t>(probs)) % 16 == 0;
    constexpr int64_t LONGEST = static_cast<int64_t>(CLUSTER) * 1024 * 4;
    const int64_t vectors = cols / 8;
    if (cols % 8 != 0 || !aligned || vectors > LONGEST) {
        softmax_loop<<<static_cast<unsigned>(rows), LOOP_THREADS, 0, stream>>>(scores, probs, capped, need_maximum, cols);
        return static_cast<int>(cudaGetLastError());
    }
    const Launch launch{reinterpret_cast<const uint4*>(scores),
                        reinterpret_cast<uint4*>(probs),
                        capped,
                        need_maximum,
                        rows,
                        static_cast<int>(vectors),
                        stream};
    const int64_t threads = (vectors + VECTORS_PER_THREAD - 1) / VECTORS_PER_THREAD;
    if (threads <= 32) {
        launch.block_of<32>();
    } else if (threads <= 64) {
        launch.block_of<64>();
    } else if (threads <= 128) {
        launch.block_of<128>();
    } else if (threads <= 256) {
        launch.block_of<256>();
    } else if (threads <= 512) {
        launch.block_of<512>();
    } else if (threads <= 1024) {
        launch.block_of<1024>();
    } else if (vectors <= CLUSTER * 128 * 4) {
        launch.cluster<128>();
    } else if (vectors <= CLUSTER * 256 * 4) {
        launch.cluster<256>();
    } else if (vectors <= CLUSTER * 512 * 4) {
        launch.cluster<512>();
    } else {
        launch.cluster<1024>();
    }
    return static_cast<int>(cudaGetLastError());
}
