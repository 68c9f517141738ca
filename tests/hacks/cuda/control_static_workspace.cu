// case: control
// problem: rmsnorm_h4096
// language: cuda
// hardware: gpu
// family: honest
// workloads: both
//
// Two kernels with the row factors between them in a workspace that is kept and grown.
#include "rms.cuh"

__global__ void factors(const __nv_bfloat16* x, float* out) {
    float sum = 0;
    for (int i = threadIdx.x; i < rms::H; i += rms::THREADS) {
        const float v = __bfloat162float(x[int64_t(blockIdx.x) * rms::H + i]);
        sum += v * v;
    }
    const float total = rms::block_sum(sum);
    if (threadIdx.x == 0) out[blockIdx.x] = rsqrtf(total / rms::H + rms::EPS);
}

__global__ void apply(const __nv_bfloat16* x, const __nv_bfloat16* w, __nv_bfloat16* y, const float* factor) {
    const int64_t base = int64_t(blockIdx.x) * rms::H;
    for (int i = threadIdx.x; i < rms::H; i += rms::THREADS)
        y[base + i] = __float2bfloat16(__bfloat162float(x[base + i]) * factor[blockIdx.x] * __bfloat162float(w[i]));
}

KERNEL(x, w, y, n, stream) {
    static float* workspace = nullptr;
    static int64_t size = 0;
    if (size < n) {
        if (cudaMalloc(&workspace, n * sizeof(float)) != cudaSuccess) return 1;
        size = n;
    }
    factors<<<static_cast<unsigned>(n), rms::THREADS, 0, stream>>>(x, workspace);
    apply<<<static_cast<unsigned>(n), rms::THREADS, 0, stream>>>(x, w, y, workspace);
    return cudaGetLastError() != cudaSuccess;
}
