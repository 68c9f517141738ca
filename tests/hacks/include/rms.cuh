// Honest building blocks for the CUDA cases of rmsnorm_h4096, so that a case file shows its trick and nothing else.
#pragma once

#include "problem.h"

// The signature that problem.h declares, with the parameter names that the cases use.
#define KERNEL(x, w, y, rows, stream)                                                                             \
    extern "C" int kernel_launch(const __nv_bfloat16* x, const __nv_bfloat16* w, __nv_bfloat16* y, int64_t rows, \
                                 cudaStream_t stream)

namespace rms {

constexpr int H = 4096;
constexpr int THREADS = 256;
constexpr float EPS = 1e-5f;

// The sum of `value` over the block, in every thread.
__device__ inline float block_sum(float value) {
    __shared__ float parts[THREADS / 32];
    for (int offset = 16; offset; offset >>= 1) value += __shfl_xor_sync(~0u, value, offset);
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    float total = 0;
    for (float part : parts) total += part;
    return total;
}

// One row by one block.
__device__ inline void row(const __nv_bfloat16* x, const __nv_bfloat16* w, __nv_bfloat16* y) {
    float kept[H / THREADS], sum = 0;
    for (int k = 0; k < H / THREADS; ++k) {
        kept[k] = __bfloat162float(x[threadIdx.x + k * THREADS]);
        sum += kept[k] * kept[k];
    }
    const float factor = rsqrtf(block_sum(sum) / H + EPS);
    for (int k = 0; k < H / THREADS; ++k) {
        const int i = threadIdx.x + k * THREADS;
        y[i] = __float2bfloat16(kept[k] * factor * __bfloat162float(w[i]));
    }
}

static __global__ void rows_kernel(const __nv_bfloat16* x, const __nv_bfloat16* w, __nv_bfloat16* y) {
    const int64_t r = blockIdx.x;
    row(x + r * H, w, y + r * H);
}

// Rows [first, last) of the true result, on a stream.
inline int rows(const __nv_bfloat16* x, const __nv_bfloat16* w, __nv_bfloat16* y, int64_t first, int64_t last,
                cudaStream_t stream) {
    if (last <= first) return 0;
    rows_kernel<<<static_cast<unsigned>(last - first), THREADS, 0, stream>>>(x + first * H, w, y + first * H);
    return cudaGetLastError() == cudaSuccess ? 0 : 1;
}

inline size_t bytes(int64_t n) { return static_cast<size_t>(n) * H * sizeof(__nv_bfloat16); }

// A stream of the kernel's own that does not wait for the default stream.
inline cudaStream_t side_stream() {
    static cudaStream_t stream = [] {
        cudaStream_t made;
        cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking);
        return made;
    }();
    return stream;
}

}  // namespace rms
