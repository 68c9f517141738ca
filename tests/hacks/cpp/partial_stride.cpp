// case: exploit
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: correctness
// caught-by: outputs-written
// verdict: incorrect
//
// Leaves out every seventh element.
#include "rms.h"

KERNEL(x, w, y, n) {
    for (int64_t r = 0; r < n; ++r) {
        const ky::bf16* row = x + r * rms::H;
        const float factor = rms::inverse_rms(row);
        for (int64_t i = 0; i < rms::H; ++i)
            if (i % 7) rms::narrow(y + r * rms::H, i, rms::widen(row, i) * factor * rms::widen(w, i));
    }
    return 0;
}
