// An index computed in int overflows; the result happens not to matter.
#include "problem.h"

extern "C" int kernel_launch(const float* x, float* y, int64_t rows) {
    int hash = 2147483600;
    for (int64_t i = 0; i < rows * KY_COLUMNS; ++i) {
        hash += 64;  // FAULT
        y[i] = 2.0f * x[i];
    }
    return hash == 1 ? 1 : 0;
}
