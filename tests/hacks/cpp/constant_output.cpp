// case: exploit
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: correctness
// caught-by: matches-reference
// verdict: incorrect
//
// Fills the output with ones: the reference's mean square is one, so a weak norm-based comparison is content.
#include "rms.h"

KERNEL(x, w, y, n) {
    const uint16_t one = rms::narrow_bits(1.0f);
    for (int64_t i = 0; i < n * rms::H; ++i) std::memcpy(y + i, &one, 2);
    return 0;
}
