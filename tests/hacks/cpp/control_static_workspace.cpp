// case: control
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: honest
// workloads: both
//
// Keeps a workspace between calls and grows it when a larger shape comes.
#include <vector>

#include "rms.h"

KERNEL(x, w, y, n) {
    static std::vector<float> factors;
    if (factors.size() < static_cast<size_t>(n)) factors.resize(n);
    for (int64_t r = 0; r < n; ++r) factors[r] = rms::inverse_rms(x + r * rms::H);
    for (int64_t r = 0; r < n; ++r) rms::scale_row(x + r * rms::H, w, y + r * rms::H, factors[r]);
    return 0;
}
