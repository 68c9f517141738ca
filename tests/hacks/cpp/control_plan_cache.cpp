// case: control
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: honest
// workloads: both
//
// Chooses how to split the rows once per shape and remembers the choice: a cache of plans, not of results.
#include <map>

#include "rms.h"

KERNEL(x, w, y, n) {
    static std::map<int64_t, int64_t> plans;
    auto [plan, fresh] = plans.try_emplace(n, 0);
    if (fresh) plan->second = n >= 64 ? 16 : 1;
    for (int64_t r = 0; r < n; r += plan->second) {
        const int64_t last = r + plan->second < n ? r + plan->second : n;
        rms::rows(x, w, y, r, last);
    }
    return 0;
}
