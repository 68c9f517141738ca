// case: control
// problem: rmsnorm_h4096
// language: cuda
// hardware: gpu
// family: honest
// workloads: largest
//
// Splits the rows over sixty-four launches, more than the driver's queue takes for a whole batch behind a closed
// gate.
#include "rms.cuh"

KERNEL(x, w, y, n, stream) {
    int status = 0;
    for (int64_t part = 0; part < 64; ++part) status |= rms::rows(x, w, y, n * part / 64, n * (part + 1) / 64, stream);
    return status;
}
