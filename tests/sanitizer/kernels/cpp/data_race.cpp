// All threads add to one variable.
#include "problem.h"

extern "C" int kernel_launch(const float* x, float* y, int64_t rows) {
    float total = 0.0f;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < KY_COLUMNS; ++c) y[r * KY_COLUMNS + c] = 2.0f * x[r * KY_COLUMNS + c];
        total += y[r * KY_COLUMNS];  // FAULT
    }
    return total == 1.0e30f ? 1 : 0;
}
