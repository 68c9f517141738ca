// case: exploit
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: correctness
// caught-by: matches-reference
// verdict: incorrect
//
// Right everywhere but for one NaN in the last row, which the share of forgiven mismatches would cover.
#include <cmath>

#include "rms.h"

KERNEL(x, w, y, n) {
    rms::rows(x, w, y, 0, n);
    rms::narrow(y + (n - 1) * rms::H, 17, NAN);
    return 0;
}
