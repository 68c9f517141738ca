// case: control
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: honest
// workloads: both
//
// Splits the rows over OpenMP threads, which the region's end joins; the team stays alive between calls.
#include "rms.h"

KERNEL(x, w, y, n) {
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < n; ++r) rms::rows(x, w, y, r, r + 1);
    return 0;
}
