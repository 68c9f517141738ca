// case: fault
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: honest
// caught-by: matches-reference
// verdict: incorrect
//
// An honest mistake: divides by the mean absolute value instead of the root mean square.
#include <cmath>

#include "rms.h"

KERNEL(x, w, y, n) {
    for (int64_t r = 0; r < n; ++r) {
        float sum = 0;
        for (int64_t i = 0; i < rms::H; ++i) sum += std::fabs(rms::widen(x + r * rms::H, i));
        rms::scale_row(x + r * rms::H, w, y + r * rms::H, rms::H / (sum + rms::EPS));
    }
    return 0;
}
