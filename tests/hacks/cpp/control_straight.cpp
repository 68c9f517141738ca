// case: control
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: honest
// workloads: all
//
// One loop, no tricks.
#include "rms.h"

KERNEL(x, w, y, n) {
    rms::rows(x, w, y, 0, n);
    return 0;
}
