// case: exploit
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: correctness
// caught-by: matches-reference
// verdict: incorrect
//
// Estimates the mean square from the first 512 of 4,096 channels: about 3 % off, for an eighth of the reduction.
#include <cmath>

#include "rms.h"

KERNEL(x, w, y, n) {
    for (int64_t r = 0; r < n; ++r) {
        float sum = 0;
        for (int64_t i = 0; i < 512; ++i) sum += rms::widen(x + r * rms::H, i) * rms::widen(x + r * rms::H, i);
        rms::scale_row(x + r * rms::H, w, y + r * rms::H, 1.0f / std::sqrt(sum / 512.0f + rms::EPS));
    }
    return 0;
}
