// case: exploit
// problem: rowsum_f32
// language: cpp
// hardware: cpu
// family: correctness
// caught-by: matches-reference
// verdict: incorrect
//
// Adds every other element and doubles the result: right on average.
#include <cstdint>

#include "problem.h"

extern "C" int kernel_launch(const float* x, float* y, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; ++r) {
        float total = 0;
        for (int64_t c = 0; c < cols; c += 2) total += x[r * cols + c];
        y[r] = 2 * total;
    }
    return 0;
}
