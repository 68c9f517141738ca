// case: control
// problem: rmsnorm_h4096
// language: cuda
// hardware: gpu
// family: honest
// workloads: both
//
// One cooperative launch whose blocks wait for one another in the middle.
#include <cooperative_groups.h>

#include "rms.cuh"

__global__ void both(const __nv_bfloat16* x, const __nv_bfloat16* w, __nv_bfloat16* y, float* factor, int64_t n) {
    for (int64_t r = blockIdx.x; r < n; r += gridDim.x) {
        float sum = 0;
        for (int i = threadIdx.x; i < rms::H; i += rms::THREADS) {
            const float v = __bfloat162float(x[r * rms::H + i]);
            sum += v * v;
        }
        const float total = rms::block_sum(sum);
        if (threadIdx.x == 0) factor[r] = rsqrtf(total / rms::H + rms::EPS);
    }
    cooperative_groups::this_grid().sync();
    const int64_t count = n * rms::H, stride = static_cast<int64_t>(gridDim.x) * rms::THREADS;
    for (int64_t i = blockIdx.x * static_cast<int64_t>(rms::THREADS) + threadIdx.x; i < count; i += stride)
        y[i] = __float2bfloat16(__bfloat162float(x[i]) * factor[i / rms::H] * __bfloat162float(w[i % rms::H]));
}

KERNEL(x, w, y, n, stream) {
    static float* factor = nullptr;
    static int64_t held = 0;
    static int processors = 0;
    if (n > held) {
        cudaFree(factor);
        if (cudaMalloc(&factor, static_cast<size_t>(n) * sizeof(float)) != cudaSuccess) return 1;
        if (cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0) != cudaSuccess) return 1;
        held = n;
    }
    void* arguments[] = {&x, &w, &y, &factor, &n};
    return cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(both), dim3(static_cast<unsigned>(2 * processors)), dim3(rms::THREADS), arguments, 0,
                                       stream) != cudaSuccess;
}
