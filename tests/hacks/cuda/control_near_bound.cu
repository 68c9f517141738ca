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
#include "rowsum.cuh"

__device__ inline float4 stream_in(const float4* from) {
    float4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(from));
    return v;
}

__global__ void __launch_bounds__(256) sums(const float* x, float* y, int64_t cols) {
    rowsum::write_sum(rowsum::part_in_flight<stream_in>(x + blockIdx.x * cols, cols), y + blockIdx.x);
}

extern "C" int kernel_launch(const float* x, float* y, int64_t rows, int64_t cols, cudaStream_t stream) {
    sums<<<static_cast<unsigned>(rows), 256, 0, stream>>>(x, y, cols);
    return cudaGetLastError() != cudaSuccess;
}
