// Writes to where nothing is.
#include "problem.h"

extern "C" int kernel_launch(const float* x, float* y, int64_t rows) {
    for (int64_t i = 0; i < rows * KY_COLUMNS; ++i) y[i] = 2.0f * x[i];
    *reinterpret_cast<volatile float*>(uintptr_t{rows > 0} << 44) = y[0];  // FAULT
    return 0;
}
