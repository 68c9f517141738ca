// case: fault
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: honest
// caught-by: runs|channel-intact
// verdict: runtime_error
//
// Recurses until the stack is used up.
#include "rms.h"

static int deeper(volatile char* above, int64_t level) {
    volatile char here[4096];
    here[0] = above ? above[0] : 1;
    return level > (int64_t{1} << 40) ? here[0] : deeper(here, level + 1) + here[1];
}

KERNEL(x, w, y, n) { return deeper(nullptr, 0) == 0; }
