// case: fault
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: honest
// caught-by: in-time
// verdict: timeout
//
// Never comes back from its call.
#include "rms.h"

KERNEL(x, w, y, n) {
    for (volatile int forever = 1; forever;) {}
    return 0;
}
