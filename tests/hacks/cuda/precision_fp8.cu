// case: exploit
// problem: rmsnorm_h4096
// language: cuda
// hardware: gpu
// family: correctness
// caught-by: matches-reference
// verdict: incorrect
//
// Rounds every result through fp8 (e4m3): up to 6 % off.
#include <cuda_fp8.h>

#include "rms.cuh"

__global__ void rounded(const __nv_bfloat16* x, const __nv_bfloat16* w, __nv_bfloat16* y) {
    rms::row(x + int64_t(blockIdx.x) * rms::H, w, y + int64_t(blockIdx.x) * rms::H);
    __syncthreads();
    for (int i = threadIdx.x; i < rms::H; i += rms::THREADS) {
        __nv_bfloat16& value = y[int64_t(blockIdx.x) * rms::H + i];
        value = __float2bfloat16(float(__nv_fp8_e4m3(__bfloat162float(value))));
    }
}

KERNEL(x, w, y, n, stream) {
    rounded<<<static_cast<unsigned>(n), rms::THREADS, 0, stream>>>(x, w, y);
    return cudaGetLastError() != cudaSuccess;
}
