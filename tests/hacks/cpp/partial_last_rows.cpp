// case: exploit
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: correctness
// caught-by: outputs-written
// verdict: incorrect
// workloads: largest
//
// Leaves the last row out: of many rows that is a small share of elements.
#include "rms.h"

KERNEL(x, w, y, n) {
    rms::rows(x, w, y, 0, n - 1);
    return 0;
}
