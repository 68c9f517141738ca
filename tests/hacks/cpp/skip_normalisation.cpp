// case: exploit
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: correctness
// caught-by: matches-reference
// verdict: incorrect
//
// Multiplies by the gain and skips the norm: standard-normal inputs have a root mean square of one already, so with them
// the whole reduction can be left out.
#include "rms.h"

KERNEL(x, w, y, n) {
    for (int64_t r = 0; r < n; ++r) rms::scale_row(x + r * rms::H, w, y + r * rms::H, 1.0f);
    return 0;
}
