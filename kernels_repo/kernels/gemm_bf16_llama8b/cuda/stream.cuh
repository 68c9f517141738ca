// Up to 16 tokens: every weight is used once or twice per byte fetched, so all that counts is to keep the memory busy.
//
// A block computes 16 (or 32) output features for all tokens; its warps share k. Weights go from memory straight into
// the registers that the tensor core reads: the order of k within a product is free, so a thread's 16 contiguous bytes
// serve as its fragments of two instructions, as long as the activations are permuted alike. The warps' sums meet in
// shared memory.

#pragma once

#include "product.cuh"

#define STREAM_WARPS 8     // tune: 4 8 16
#define STREAM_ROW_TILES 1 // tune: 1 2
#define STREAM_DEPTH 4     // tune: 2 4 8

constexpr int STREAM_THREADS = STREAM_WARPS * 32;
constexpr int STREAM_ROWS = STREAM_ROW_TILES * 16;

// DEPTH steps of k, STREAM_WARPS apart, all their loads before the first product. A step is 64 of k: two 16-byte vectors
// per thread and row.
template <int TOKEN_TILES, int DEPTH>
__device__ __forceinline__ void stream_steps(const uint4* const (&weights)[STREAM_ROW_TILES][2],
                                             const uint4* const (&tokens)[TOKEN_TILES], int first,
                                             float (&sums)[STREAM_ROW_TILES][TOKEN_TILES][4]) {
    uint4 w[DEPTH][2][STREAM_ROW_TILES][2], x[DEPTH][2][TOKEN_TILES];
#pragma unroll
    for (int d = 0; d < DEPTH; ++d) {
#pragma unroll
        for (int part = 0; part < 2; ++part) {
            const int at = (first + d * STREAM_WARPS) * 8 + part * 4;  // in vectors of eight
#pragma unroll
            for (int r = 0; r < STREAM_ROW_TILES; ++r) {
                w[d][part][r][0] = __ldcs(weights[r][0] + at);
                w[d][part][r][1] = __ldcs(weights[r][1] + at);
            }
#pragma unroll
            for (int t = 0; t < TOKEN_TILES; ++t) x[d][part][t] = __ldg(tokens[t] + at);
        }
    }
#pragma unroll
    for (int d = 0; d < DEPTH; ++d) {
#pragma unroll
        for (int part = 0; part < 2; ++part) {
#pragma unroll
            for (int r = 0; r < STREAM_ROW_TILES; ++r) {
                const uint4 low = w[d][part][r][0], high = w[d][part][r][1];
#pragma unroll
                for (int t = 0; t < TOKEN_TILES; ++t) {
                    const uint4 v = x[d][part][t];
                    multiply_add(sums[r][t], low.x, high.x, low.y, high.y, v.x, v.y);
                    multiply_add(sums[r][t], low.z, high.z, low.w, high.w, v.z, v.w);
                }
            }
        }
    }
}

// TOKEN_TILES tiles of 8 tokens.
template <int TOKEN_TILES>
__global__ void __launch_bounds__(STREAM_THREADS) stream_weights(Product p) {
    constexpr int TOKENS = TOKEN_TILES * 8;
    // Steps in flight per warp, fewer when each is wider.
    constexpr int DEPTH = STREAM_DEPTH / STREAM_ROW_TILES > 0 ? STREAM_DEPTH / STREAM_ROW_TILES : 1;
    __shared__ float parts[STREAM_WARPS][TOKENS][STREAM_ROWS + 1];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int group = lane / 4, within = lane % 4;
    const int first_row = blockIdx.x * STREAM_ROWS;

    const uint4* weights[STREAM_ROW_TILES][2];
#pragma unroll
    for (int r = 0; r < STREAM_ROW_TILES; ++r) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            // Rows past the end read the last one; what they yield is not stored.
            const int row = min(first_row + r * 16 + half * 8 + group, p.n - 1);
            weights[r][half] = reinterpret_cast<const uint4*>(p.weight + static_cast<int64_t>(row) * p.k) + within;
        }
    }
    const uint4* tokens[TOKEN_TILES];
#pragma unroll
    for (int t = 0; t < TOKEN_TILES; ++t) {
        // Columns of the product are independent: one without a token computes another's and is not stored.
        const int token = min(t * 8 + group, p.m - 1);
        tokens[t] = reinterpret_cast<const uint4*>(p.a + static_cast<int64_t>(token) * p.k) + within;
    }

    float sums[STREAM_ROW_TILES][TOKEN_TILES][4] = {};
    const int steps = p.k / 64;
    int step = warp;
    for (; step + (DEPTH - 1) * STREAM_WARPS < steps; step += DEPTH * STREAM_WARPS) {
        stream_steps<TOKEN_TILES, DEPTH>(weights, tokens, step, sums);
    }
    for (; step < steps; step += STREAM_WARPS) stream_steps<TOKEN_TILES, 1>(weights, tokens, step, sums);

#pragma unroll
    for (int r = 0; r < STREAM_ROW_TILES; ++r) {
#pragma unroll
        for (int t = 0; t < TOKEN_TILES; ++t) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                parts[warp][t * 8 + within * 2 + i % 2][r * 16 + i / 2 * 8 + group] = sums[r][t][i];
            }
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < TOKENS * STREAM_ROWS; i += STREAM_THREADS) {
        const int token = i / STREAM_ROWS, row = i % STREAM_ROWS;
        float total = 0.0f;
#pragma unroll
        for (int other = 0; other < STREAM_WARPS; ++other) total += parts[other][token][row];
        if (token < p.m && first_row + row < p.n) {
            p.c[static_cast<int64_t>(token) * p.n + first_row + row] = __float2bfloat16(total);
        }
    }
}

inline cudaError_t launch_stream(const Product& product, cudaStream_t stream) {
    const unsigned blocks = static_cast<unsigned>((product.n + STREAM_ROWS - 1) / STREAM_ROWS);
    if (product.m <= 8) {
        stream_weights<1><<<blocks, STREAM_THREADS, 0, stream>>>(product);
    } else {
        stream_weights<2><<<blocks, STREAM_THREADS, 0, stream>>>(product);
    }
    return cudaGetLastError();
}
