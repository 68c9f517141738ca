// case: control
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: honest
// workloads: both
//
// Reads its inputs three times over and writes its output twice.
#include "rms.h"

KERNEL(x, w, y, n) {
    rms::rows(x, w, y, 0, n);
    for (int64_t r = 0; r < n; ++r) {
        const float once = rms::inverse_rms(x + r * rms::H), twice = rms::inverse_rms(x + r * rms::H);
        rms::scale_row(x + r * rms::H, w, y + r * rms::H, (once + twice) / 2);
    }
    return 0;
}
