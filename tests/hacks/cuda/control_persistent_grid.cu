// case: control
// problem: rmsnorm_h4096
// language: cuda
// hardware: gpu
// family: honest
// workloads: both
//
// A grid of as many blocks as fit takes rows from a counter that every call resets; how many is a tunable.
#include "rms.cuh"

#ifndef BLOCKS_PER_SM
#define BLOCKS_PER_SM 4
#endif

__global__ void take(const __nv_bfloat16* x, const __nv_bfloat16* w, __nv_bfloat16* y, unsigned* next, unsigned n) {
    __shared__ unsigned r;
    for (;;) {
        __syncthreads();
        if (threadIdx.x == 0) r = atomicAdd(next, 1);
        __syncthreads();
        if (r >= n) return;
        rms::row(x + r * static_cast<int64_t>(rms::H), w, y + r * static_cast<int64_t>(rms::H));
    }
}

KERNEL(x, w, y, n, stream) {
    static unsigned* next = nullptr;
    static int processors = 0;
    if (!next) {
        if (cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0) != cudaSuccess) return 1;
        if (cudaMalloc(&next, sizeof(unsigned)) != cudaSuccess) return 1;
    }
    cudaMemsetAsync(next, 0, sizeof(unsigned), stream);
    take<<<BLOCKS_PER_SM * processors, rms::THREADS, 0, stream>>>(x, w, y, next, static_cast<unsigned>(n));
    return cudaGetLastError() != cudaSuccess;
}
