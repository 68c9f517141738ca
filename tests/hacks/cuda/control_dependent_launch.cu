// case: control
// problem: rmsnorm_h4096
// language: cuda
// hardware: gpu
// family: honest
// workloads: both
//
// Programmatic dependent launch: the second kernel may start while the first still runs, and waits for its results
// itself.
#include "rms.cuh"

__global__ void factors(const __nv_bfloat16* x, float* factor) {
    const int64_t r = blockIdx.x;
    float sum = 0;
    for (int i = threadIdx.x; i < rms::H; i += rms::THREADS) {
        const float v = __bfloat162float(x[r * rms::H + i]);
        sum += v * v;
    }
    const float total = rms::block_sum(sum);
    if (threadIdx.x == 0) factor[r] = rsqrtf(total / rms::H + rms::EPS);
    __syncthreads();
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

__global__ void scale(const __nv_bfloat16* x, const __nv_bfloat16* w, __nv_bfloat16* y, const float* factor) {
    const int64_t r = blockIdx.x;
    asm volatile("griddepcontrol.wait;" ::: "memory");
    for (int i = threadIdx.x; i < rms::H; i += rms::THREADS)
        y[r * rms::H + i] = __float2bfloat16(__bfloat162float(x[r * rms::H + i]) * factor[r] * __bfloat162float(w[i]));
}

KERNEL(x, w, y, n, stream) {
    static float* factor = nullptr;
    static int64_t held = 0;
    if (n > held) {
        cudaFree(factor);
        if (cudaMalloc(&factor, static_cast<size_t>(n) * sizeof(float)) != cudaSuccess) return 1;
        held = n;
    }
    factors<<<static_cast<unsigned>(n), rms::THREADS, 0, stream>>>(x, factor);
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t how = {};
    how.gridDim = dim3(static_cast<unsigned>(n)), how.blockDim = dim3(rms::THREADS), how.stream = stream;
    how.attrs = &early, how.numAttrs = 1;
    const float* made = factor;
    return cudaLaunchKernelEx(&how, scale, x, w, y, made) != cudaSuccess;
}
