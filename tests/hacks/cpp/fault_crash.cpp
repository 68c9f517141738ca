// case: fault
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: honest
// caught-by: runs|channel-intact
// verdict: runtime_error
//
// Dereferences a null pointer.
#include "rms.h"

KERNEL(x, w, y, n) {
    volatile int* nowhere = nullptr;
    *nowhere = 1;
    return 0;
}
