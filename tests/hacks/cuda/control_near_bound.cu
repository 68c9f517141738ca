// case: control
// problem: rowsum_f32
// language: cuda
// hardware: gpu
// family: honest
// workloads: both
//
// Reads everything once at the speed of the memory, and does next to nothing with it: as near to the bound as the
// device gets.
#include <cstdint>

#include "problem.h"

__device__ inline float4 stream_in(const float4* from) {
    float4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(from));
    return v;
}

__global__ void __launch_bounds__(256) sums(const float* x, float* y, int64_t cols) {
    __shared__ float parts[8];
    const float4* row = reinterpret_cast<const float4*>(x + blockIdx.x * cols);
    float sum = 0;
    for (int64_t c = threadIdx.x; c < cols / 4; c += 4 * 256) {
        float4 v[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) v[k] = stream_in(row + c + 256 * k);
#pragma unroll
        for (int k = 0; k < 4; ++k) sum += v[k].x + v[k].y + v[k].z + v[k].w;
    }
    for (int offset = 16; offset; offset >>= 1) sum += __shfl_xor_sync(~0u, sum, offset);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int k = 1; k < 8; ++k) sum += parts[k];
        y[blockIdx.x] = sum;
    }
}

extern "C" int kernel_launch(const float* x, float* y, int64_t rows, int64_t cols, cudaStream_t stream) {
    sums<<<static_cast<unsigned>(rows), 256, 0, stream>>>(x, y, cols);
    return cudaGetLastError() != cudaSuccess;
}
