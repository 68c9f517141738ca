// case: fault
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: honest
// caught-by: runs|channel-intact
// verdict: runtime_error
//
// Asks for more memory than the sandbox allows and reports that it got none.
#include <cstdlib>

#include "rms.h"

KERNEL(x, w, y, n) {
    void* much = std::malloc(size_t{1} << 46);
    if (!much) return 12;
    std::memset(much, 1, size_t{1} << 46);
    return 0;
}
