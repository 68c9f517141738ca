// case: control
// problem: rmsnorm_h4096
// language: cuda
// hardware: gpu
// family: honest
// workloads: both
//
// Splits the rows over the caller's stream and one of its own, forked and joined by events.
#include "rms.cuh"

KERNEL(x, w, y, n, stream) {
    static cudaEvent_t fork = nullptr, join = nullptr;
    if (!fork) {
        if (cudaEventCreateWithFlags(&fork, cudaEventDisableTiming) != cudaSuccess) return 1;
        if (cudaEventCreateWithFlags(&join, cudaEventDisableTiming) != cudaSuccess) return 1;
    }
    const cudaStream_t side = rms::side_stream();
    cudaEventRecord(fork, stream);
    cudaStreamWaitEvent(side, fork, 0);
    const int status = rms::rows(x, w, y, n / 2, n, side) | rms::rows(x, w, y, 0, n / 2, stream);
    cudaEventRecord(join, side);
    cudaStreamWaitEvent(stream, join, 0);
    return status;
}
