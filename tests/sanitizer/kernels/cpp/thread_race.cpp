// Two threads of its own write one element without a lock.
#include <thread>

#include "problem.h"

extern "C" int kernel_launch(const float* x, float* y, int64_t rows) {
    auto work = [=](int64_t first) {
        for (int64_t i = first; i < rows * KY_COLUMNS; i += 2) y[i] = 2.0f * x[i];  // FAULT
        y[0] = 2.0f * x[0];  // FAULT
    };
    std::thread other(work, 1);
    work(0);
    other.join();
    return 0;
}
