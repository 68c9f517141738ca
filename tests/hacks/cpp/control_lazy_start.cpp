// case: control
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: honest
// workloads: both
//
// Spends a long time on its first call, as just-in-time compilation or a table would, and is quick ever after.
#include <chrono>
#include <thread>

#include "rms.h"

KERNEL(x, w, y, n) {
    static bool ready = false;
    if (!ready) std::this_thread::sleep_for(std::chrono::milliseconds(150));
    ready = true;
    rms::rows(x, w, y, 0, n);
    return 0;
}
