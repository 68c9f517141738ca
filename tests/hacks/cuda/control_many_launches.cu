// case: control
// problem: rmsnorm_h4096
// language: cuda
// hardware: gpu
// family: honest
// workloads: largest
//
// Splits the rows over sixteen launches.
#include "rms.cuh"

KERNEL(x, w, y, n, stream) {
    int status = 0;
    for (int64_t part = 0; part < 16; ++part) status |= rms::rows(x, w, y, n * part / 16, n * (part + 1) / 16, stream);
    return status;
}
