// case: exploit
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: correctness
// caught-by: matches-reference
// verdict: incorrect
//
// Fills the output with NaN: every comparison with NaN is false, also "error is larger than the limit".
#include <cmath>

#include "rms.h"

KERNEL(x, w, y, n) {
    for (int64_t i = 0; i < n * rms::H; ++i) rms::narrow(y, i, NAN);
    return 0;
}
