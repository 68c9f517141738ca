// Keeps the first call's output and writes to it again later, when it has been freed.
#include "problem.h"

extern "C" int kernel_launch(const float* x, float* y, int64_t rows) {
    static float* kept = nullptr;
    if (kept == nullptr) kept = y;
    kept[0] = x[0];  // FAULT
    for (int64_t i = 0; i < rows * KY_COLUMNS; ++i) y[i] = 2.0f * x[i];
    return 0;
}
