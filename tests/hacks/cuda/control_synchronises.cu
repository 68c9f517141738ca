// case: control
// problem: rmsnorm_h4096
// language: cuda
// hardware: gpu
// family: honest
// workloads: both
//
// Waits for its own stream before it returns: slower to measure, but honest.
#include "rms.cuh"

KERNEL(x, w, y, n, stream) {
    const int status = rms::rows(x, w, y, 0, n, stream);
    return status | (cudaStreamSynchronize(stream) != cudaSuccess);
}
