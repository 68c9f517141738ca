// Writes one element past the end of y, from a function of its own.
#include "problem.h"

__attribute__((noinline)) static void twice(const float* x, float* y, int64_t cells) {
    for (int64_t i = 0; i <= cells; ++i) {
        y[i] = i < cells ? 2.0f * x[i] : 0.0f;  // FAULT
    }
}

extern "C" int kernel_launch(const float* x, float* y, int64_t rows) {
    twice(x, y, rows * KY_COLUMNS);
    return 0;
}
