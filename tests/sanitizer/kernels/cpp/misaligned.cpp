// Reads an int64 at an address that is a multiple of four only.
#include "problem.h"

extern "C" int kernel_launch(const float* x, float* y, int64_t rows) {
    const int64_t cells = rows * KY_COLUMNS;
    int64_t pair = 0;
    if (cells > 4) {
        pair = *reinterpret_cast<const volatile int64_t*>(x + 1);  // FAULT
    }
    for (int64_t i = 0; i < cells; ++i) y[i] = 2.0f * x[i];
    return pair == 1 ? 1 : 0;
}
