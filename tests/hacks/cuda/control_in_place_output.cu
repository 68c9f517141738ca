// case: control
// problem: rmsnorm_h4096
// language: cuda
// hardware: gpu
// family: honest
// workloads: both
//
// Copies the input into the output and normalises it there.
#include "rms.cuh"

KERNEL(x, w, y, n, stream) {
    if (cudaMemcpyAsync(y, x, rms::bytes(n), cudaMemcpyDeviceToDevice, stream) != cudaSuccess) return 1;
    return rms::rows(y, w, y, 0, n, stream);
}
