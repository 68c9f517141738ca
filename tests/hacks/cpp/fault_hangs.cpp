// case: fault
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: honest
// caught-by: in-time
// verdict: timeout
// timeout-s: 1
//
// Never comes back from its third call.
#include "rms.h"

KERNEL(x, w, y, n) {
    static int calls = 0;
    for (volatile int forever = ++calls == 3; forever;) {}
    rms::rows(x, w, y, 0, n);
    return 0;
}
