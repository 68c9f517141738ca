// case: exploit
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: correctness
// caught-by: matches-reference
// verdict: incorrect
//
// Writes a large wrong number into the last column of each row: one element in 4,096, inside the share of mismatches that
// the tolerance forgives, so only a cap on the single error sees it.
#include "rms.h"

KERNEL(x, w, y, n) {
    rms::rows(x, w, y, 0, n);
    for (int64_t r = 0; r < n; ++r) rms::narrow(y + r * rms::H, rms::H - 1, 1000.0f);
    return 0;
}
