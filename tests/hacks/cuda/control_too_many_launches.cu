// case: control
// problem: rmsnorm_h4096
// language: cuda
// hardware: gpu
// family: honest
// workloads: largest
//
// Splits the rows over 640 launches, so that the driver's queue does not take a pair of calls behind a closed gate.
#include "rms.cuh"

KERNEL(x, w, y, n, stream) {
    constexpr int64_t PARTS = 640;
    int status = 0;
    for (int64_t k = 0; k < PARTS; ++k) status |= rms::rows(x, w, y, n * k / PARTS, n * (k + 1) / PARTS, stream);
    return status;
}
