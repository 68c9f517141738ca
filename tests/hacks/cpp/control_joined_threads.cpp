// case: control
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: honest
// workloads: largest
//
// Starts two threads at each call and joins them.
#include <thread>

#include "rms.h"

KERNEL(x, w, y, n) {
    std::thread other([=] { rms::rows(x, w, y, n / 2, n); });
    rms::rows(x, w, y, 0, n / 2);
    other.join();
    return 0;
}
