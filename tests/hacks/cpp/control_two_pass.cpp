// case: control
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: honest
// workloads: both
//
// Copies its whole input to scratch memory first and works from the copy: twice the traffic, honest all the same.
#include <vector>

#include "rms.h"

KERNEL(x, w, y, n) {
    static std::vector<ky::bf16> copy;
    copy.resize(n * rms::H);
    std::memcpy(copy.data(), x, rms::bytes(n));
    rms::rows(copy.data(), w, y, 0, n);
    return 0;
}
