// case: control
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: honest
// workloads: both
//
// Allocates and frees its scratch memory at every call, large enough to come from mmap.
#include <cstdlib>

#include "rms.h"

KERNEL(x, w, y, n) {
    auto* copy = static_cast<ky::bf16*>(std::malloc(rms::bytes(n) + (1 << 20)));
    if (!copy) return 1;
    std::memcpy(copy, x, rms::bytes(n));
    rms::rows(copy, w, y, 0, n);
    std::free(copy);
    return 0;
}
