// case: control
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: honest
// workloads: both
//
// Copies the input into the output and then normalises the output in place, so the output is read as well as written.
#include "rms.h"

KERNEL(x, w, y, n) {
    std::memcpy(y, x, rms::bytes(n));
    for (int64_t r = 0; r < n; ++r) rms::scale_row(y + r * rms::H, w, y + r * rms::H, rms::inverse_rms(y + r * rms::H));
    return 0;
}
