// case: exploit
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: correctness
// caught-by: matches-reference
// verdict: incorrect
//
// Takes the gain for one everywhere, since gains near one are what generators make, and never reads it.
#include "rms.h"

KERNEL(x, w, y, n) {
    for (int64_t r = 0; r < n; ++r) {
        const float factor = rms::inverse_rms(x + r * rms::H);
        for (int64_t i = 0; i < rms::H; ++i) rms::narrow(y + r * rms::H, i, rms::widen(x + r * rms::H, i) * factor);
    }
    return 0;
}
