// Honest building blocks for the CUDA cases of swap_halves_f32.
#pragma once

#include <cstdint>

namespace swap {

constexpr int THREADS = 256;

// Block b moves row b of those [first, first + blocks) of x.
static __global__ void __launch_bounds__(THREADS)
    move(const float* x, float* y, int64_t rows, int64_t cols, int64_t first) {
    const int64_t from = first + blockIdx.x, to = from < rows / 2 ? from + rows / 2 : from - rows / 2;
    const float4* in = reinterpret_cast<const float4*>(x + from * cols);
    float4* out = reinterpret_cast<float4*>(y + to * cols);
    for (int64_t c = threadIdx.x; c < cols / 4; c += THREADS) out[c] = in[c];
}

// Moves rows [first, last) of x.
inline int rows_of(const float* x, float* y, int64_t rows, int64_t cols, int64_t first, int64_t last,
                   cudaStream_t stream) {
    if (last <= first) return 0;
    move<<<static_cast<unsigned>(last - first), THREADS, 0, stream>>>(x, y, rows, cols, first);
    return cudaGetLastError() != cudaSuccess;
}

}  // namespace swap
