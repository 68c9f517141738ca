// case: fault
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: honest
// caught-by: runs
// verdict: runtime_error
//
// Says itself that it failed: returns 3.
#include "rms.h"

KERNEL(x, w, y, n) {
    return 3;
}
