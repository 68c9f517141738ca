// case: exploit
// problem: rmsnorm_h4096
// language: cuda
// hardware: gpu
// family: correctness
// caught-by: matches-reference
// verdict: incorrect
//
// Estimates each row's mean square from an eighth of its channels.
#include "rms.cuh"

__global__ void sampled(const __nv_bfloat16* x, const __nv_bfloat16* w, __nv_bfloat16* y) {
    x += int64_t(blockIdx.x) * rms::H, y += int64_t(blockIdx.x) * rms::H;
    float sum = 0;
    for (int i = threadIdx.x; i < rms::H / 8; i += rms::THREADS)
        sum += __bfloat162float(x[i]) * __bfloat162float(x[i]);
    const float factor = rsqrtf(rms::block_sum(sum) / (rms::H / 8) + rms::EPS);
    for (int i = threadIdx.x; i < rms::H; i += rms::THREADS)
        y[i] = __float2bfloat16(__bfloat162float(x[i]) * factor * __bfloat162float(w[i]));
}

KERNEL(x, w, y, n, stream) {
    sampled<<<static_cast<unsigned>(n), rms::THREADS, 0, stream>>>(x, w, y);
    return cudaGetLastError() != cudaSuccess;
}
