// At most 16 tokens: every weight is used once or twice per byte fetched, so all that counts is to keep the memory busy.
//
// A block computes 16 (or 32) output features for all tokens; its warps share k. The order of k within a product is free,
// so 16 contiguous bytes serve a thread as its fragments of two instructions, as long as the activations are permuted
// alike. Every thread fetches its own vectors several steps ahead into a ring of its own in shared memory: no registers
// are held and nothing is waited for but its own copies. The warps' sums meet at the end.

#pragma once

#include "product.cuh"

#define STREAM_WARPS 8     // tune: 4 8 16
#define STREAM_ROW_TILES 1 // tune: 1 2
#define STREAM_KIB 96      // tune: 64 96 192

constexpr int STREAM_THREADS = STREAM_WARPS * 32;
constexpr int STREAM_ROWS = STREAM_ROW_TILES * 16;

// A step is 64 of k: two vectors per thread for each 8 rows of weights and each 8 tokens.
template <int TOKEN_TILES>
struct Stream {
    static constexpr int TOKENS = TOKEN_TILES * 8;
    static constexpr int VECTORS = STREAM_ROW_TILES * 4 + TOKEN_TILES * 2;
    static constexpr int STEP_BYTES = VECTORS * STREAM_THREADS * 16;
    static constexpr int FITTING = STREAM_KIB * 1024 / STEP_BYTES;
    static constexpr int DEPTH = FITTING < 2 ? 2 : FITTING;
    static constexpr int PARTS_BYTES = STREAM_WARPS * TOKENS * (STREAM_ROWS + 1) * 4;
    static constexpr int SHARED_BYTES = DEPTH * STEP_BYTES > PARTS_BYTES ? DEPTH * STEP_BYTES : PARTS_BYTES;
};

// TOKEN_TILES tiles of 8 tokens.
template <int TOKEN_TILES>
__global__ void __launch_bounds__(STREAM_THREADS) stream_weights(Product p) {
    using Ring = Stream<TOKEN_TILES>;
    extern __shared__ __align__(1024) unsigned char shared_memory[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int group = lane / 4, within = lane % 4;
    const int first_row = blockIdx.x * STREAM_ROWS;

    // The rows this thread reads: of the weight in groups of 8, then of a. Rows past the end read the last one: rows and
    // columns of a product are independent, and what these yield is not stored.
    const uint4* sources[Ring::VECTORS / 2];
#pragma unroll
    for (int r = 0; r < STREAM_ROW_TILES * 2; ++r) {
        const int row = min(first_row + r * 8 + group, p.n - 1);
        sources[r] = reinterpret_cast<const uint4*>(p.weight + static_cast<int64_t>(row) * p.k) + within;
    }
#pragma unroll
    for (int t = 0; t < TOKEN_TILES; ++t) {
        const int token = min(t * 8 + group, p.m - 1);
        sources[STREAM_ROW_TILES * 2 + t] =
            reinterpret_cast<const uint4*>(p.a + static_cast<int64_t>(token) * p.k) + within;
    }

    const uint4* ring = reinterpret_cast<const uint4*>(shared_memory) + threadIdx.x;
    const uint32_t ring_address = shared_address(ring);
    const int steps = (p.k / 64 - warp + STREAM_WARPS - 1) / STREAM_WARPS;  // of this warp: every STREAM_WARPS-th
    auto fetch = [&](int step) {
        if (step < steps) {
            const int at = (warp + step * STREAM_WARPS) * 8;  // in vectors of eight elements
            const uint32_t to = ring_address + step % Ring::DEPTH * Ring::STEP_BYTES;
#pragma unroll
            for (int v = 0; v < Ring::VECTORS; ++v) {
                copy_async(to + v * STREAM_THREADS * 16, sources[v / 2] + at + v % 2 * 4, true);
            }
        }
        commit_copies();
    };

    float sums[STREAM_ROW_TILES][TOKEN_TILES][4] = {};
#pragma unroll
    for (int step = 0; step < Ring::DEPTH - 1; ++step) fetch(step);
    for (int step = 0; step < steps; ++step) {
        fetch(step + Ring::DEPTH - 1);
        wait_copies<Ring::DEPTH - 1>();  // this step's are here; the later ones are on their way
        const uint4* here = ring + step % Ring::DEPTH * (Ring::STEP_BYTES / 16);
#pragma unroll
        for (int part = 0; part < 2; ++part) {
            uint4 tokens[TOKEN_TILES];
#pragma unroll
            for (int t = 0; t < TOKEN_TILES; ++t) {
                tokens[t] = here[((STREAM_ROW_TILES * 2 + t) * 2 + part) * STREAM_THREADS];
            }
#pragma unroll
            for (int r = 0; r < STREAM_ROW_TILES; ++r) {
                const uint4 low = here[(r * 4 + part) * STREAM_THREADS], high = here[(r * 4 + 2 + part) * STREAM_THREADS];
#pragma unroll
                for (int t = 0; t < TOKEN_TILES; ++t) {
                    const uint4 v = tokens[t];
                    multiply_add(sums[r][t], low.x, high.x, low.y, high.y, v.x, v.y);
                    multiply_add(sums[r][t], low.z, high.z, low.w, high.w, v.z, v.w);
                }
            }
        }
    }

    wait_copies<0>();
    __syncthreads();  // the rings are done with
    float* parts = reinterpret_cast<float*>(shared_memory);  // [STREAM_WARPS][TOKENS][STREAM_ROWS + 1]
#pragma unroll
    for (int r = 0; r < STREAM_ROW_TILES; ++r) {
#pragma unroll
        for (int t = 0; t < TOKEN_TILES; ++t) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int token = t * 8 + within * 2 + i % 2, row = r * 16 + i / 2 * 8 + group;
                parts[(warp * Ring::TOKENS + token) * (STREAM_ROWS + 1) + row] = sums[r][t][i];
            }
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < Ring::TOKENS * STREAM_ROWS; i += STREAM_THREADS) {
        const int token = i / STREAM_ROWS, row = i % STREAM_ROWS;
        float total = 0.0f;
#pragma unroll
        for (int other = 0; other < STREAM_WARPS; ++other) {
            total += parts[(other * Ring::TOKENS + token) * (STREAM_ROWS + 1) + row];
        }
        if (token < p.m && first_row + row < p.n) {
            p.c[static_cast<int64_t>(token) * p.n + first_row + row] = __float2bfloat16(total);
        }
    }
}

template <int TOKEN_TILES>
cudaError_t launch_stream_tokens(const Product& product, cudaStream_t stream) {
    constexpr int BYTES = Stream<TOKEN_TILES>::SHARED_BYTES;
    static_assert(BYTES <= 227 * 1024);
    static const cudaError_t allowed =
        cudaFuncSetAttribute(stream_weights<TOKEN_TILES>, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES);
    if (allowed != cudaSuccess) return allowed;
    const unsigned blocks = static_cast<unsigned>((product.n + STREAM_ROWS - 1) / STREAM_ROWS);
    stream_weights<TOKEN_TILES><<<blocks, STREAM_THREADS, BYTES, stream>>>(product);
    return cudaGetLastError();
}

inline cudaError_t launch_stream(const Product& product, cudaStream_t stream) {
    return product.m <= 8 ? launch_stream_tokens<1>(product, stream) : launch_stream_tokens<2>(product, stream);
}
