// case: control
// problem: rmsnorm_h4096
// language: cuda
// hardware: gpu
// family: honest
// workloads: both
//
// Tells the cache what to keep and what to drop within the call: weights last, hidden states first.
#include "rms.cuh"

__device__ inline float hinted(const __nv_bfloat16* from, unsigned long long policy) {
    unsigned short bits;
    asm volatile("ld.global.L2::cache_hint.u16 %0, [%1], %2;" : "=h"(bits) : "l"(from), "l"(policy));
    return __bfloat162float(__ushort_as_bfloat16(bits));
}

__global__ void rows_kernel(const __nv_bfloat16* x, const __nv_bfloat16* w, __nv_bfloat16* y) {
    unsigned long long keep, drop;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(keep));
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(drop));
    const int64_t r = blockIdx.x;
    float kept[rms::H / rms::THREADS], sum = 0;
    for (int k = 0; k < rms::H / rms::THREADS; ++k) {
        kept[k] = hinted(x + r * rms::H + threadIdx.x + k * rms::THREADS, drop);
        sum += kept[k] * kept[k];
    }
    const float factor = rsqrtf(rms::block_sum(sum) / rms::H + rms::EPS);
    for (int k = 0; k < rms::H / rms::THREADS; ++k) {
        const int i = threadIdx.x + k * rms::THREADS;
        y[r * rms::H + i] = __float2bfloat16(kept[k] * factor * hinted(w + i, keep));
    }
}

KERNEL(x, w, y, n, stream) {
    rows_kernel<<<static_cast<unsigned>(n), rms::THREADS, 0, stream>>>(x, w, y);
    return cudaGetLastError() != cudaSuccess;
}
