// Reads one element past the end of x.
#include "problem.h"

extern "C" int kernel_launch(const float* x, float* y, int64_t rows) {
    const int64_t cells = rows * KY_COLUMNS;
    for (int64_t i = 0; i < cells; ++i) {
        const float next = x[i + 1];  // FAULT
        y[i] = 2.0f * x[i] + 0.0f * next;
    }
    return 0;
}
