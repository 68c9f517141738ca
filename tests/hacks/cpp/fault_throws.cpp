// case: fault
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: honest
// caught-by: runs|channel-intact
// verdict: runtime_error
//
// Lets a C++ exception out of the call, which ends the process.
#include <stdexcept>

#include "rms.h"

KERNEL(x, w, y, n) {
    throw std::runtime_error("no plan for this shape");
}
