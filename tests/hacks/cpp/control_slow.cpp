// case: control
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: honest
//
// Honest and a few hundred times slower than it should be: slow is no offence.
#include "rms.h"

KERNEL(x, w, y, n) {
    volatile float sink = 0;
    for (int i = 0; i < 300000; ++i) sink = sink + 1.0f;
    rms::rows(x, w, y, 0, n);
    return 0;
}
