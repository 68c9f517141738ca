// case: control
// problem: rmsnorm_h4096
// language: cuda
// hardware: gpu
// family: honest
// workloads: both
//
// Two kernels with single-precision temporaries of four times the input between them: a cache full of dirty lines
// that are nobody's output.
#include "rms.cuh"

__global__ void widen(const __nv_bfloat16* x, float* wide, float* square) {
    const int64_t r = blockIdx.x;
    for (int i = threadIdx.x; i < rms::H; i += rms::THREADS) {
        const float v = __bfloat162float(x[r * rms::H + i]);
        wide[r * rms::H + i] = v, square[r * rms::H + i] = v * v;
    }
}

__global__ void finish(const float* wide, const float* square, const __nv_bfloat16* w, __nv_bfloat16* y) {
    const int64_t r = blockIdx.x;
    float sum = 0;
    for (int i = threadIdx.x; i < rms::H; i += rms::THREADS) sum += square[r * rms::H + i];
    const float factor = rsqrtf(rms::block_sum(sum) / rms::H + rms::EPS);
    for (int i = threadIdx.x; i < rms::H; i += rms::THREADS)
        y[r * rms::H + i] = __float2bfloat16(wide[r * rms::H + i] * factor * __bfloat162float(w[i]));
}

KERNEL(x, w, y, n, stream) {
    static float* temporary = nullptr;
    static int64_t held = 0;
    if (n > held) {
        cudaFree(temporary);
        if (cudaMalloc(&temporary, 4 * rms::bytes(n)) != cudaSuccess) return 1;
        held = n;
    }
    const auto blocks = static_cast<unsigned>(n);
    widen<<<blocks, rms::THREADS, 0, stream>>>(x, temporary, temporary + n * rms::H);
    finish<<<blocks, rms::THREADS, 0, stream>>>(temporary, temporary + n * rms::H, w, y);
    return cudaGetLastError() != cudaSuccess;
}
