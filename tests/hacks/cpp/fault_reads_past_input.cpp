// case: fault
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: honest
// caught-by: runs|channel-intact
// verdict: runtime_error
//
// Reads far past the end of its input and crashes there.
#include "rms.h"

KERNEL(x, w, y, n) {
    volatile const char* far = reinterpret_cast<const char*>(x) + (int64_t{1} << 40);
    (void)*far;
    rms::rows(x, w, y, 0, n);
    return 0;
}
