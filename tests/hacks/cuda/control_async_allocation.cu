// case: control
// problem: rmsnorm_h4096
// language: cuda
// hardware: gpu
// family: honest
// workloads: both
//
// Allocates its scratch memory in stream order at every call and frees it again.
#include "rms.cuh"

KERNEL(x, w, y, n, stream) {
    __nv_bfloat16* copy = nullptr;
    if (cudaMallocAsync(&copy, rms::bytes(n), stream) != cudaSuccess) return 1;
    cudaMemcpyAsync(copy, x, rms::bytes(n), cudaMemcpyDeviceToDevice, stream);
    const int status = rms::rows(copy, w, y, 0, n, stream);
    return status | (cudaFreeAsync(copy, stream) != cudaSuccess);
}
