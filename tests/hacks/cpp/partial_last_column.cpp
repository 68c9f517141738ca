// case: exploit
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: correctness
// caught-by: outputs-written
// verdict: incorrect
//
// Leaves out the last column of each row: one element in 4,096, far inside the share that a tolerance forgives.
#include "rms.h"

KERNEL(x, w, y, n) {
    for (int64_t r = 0; r < n; ++r)
        rms::scale_row(x + r * rms::H, w, y + r * rms::H, rms::inverse_rms(x + r * rms::H), rms::H - 1);
    return 0;
}
