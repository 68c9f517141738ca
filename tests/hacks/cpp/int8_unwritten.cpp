// case: exploit
// problem: quantise_rows_i8
// language: cpp
// hardware: cpu
// family: correctness
// caught-by: matches-reference|outputs-written
// verdict: incorrect
//
// Leaves the second half of every row of a one-byte output unwritten: every leftover byte is a possible result.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "problem.h"

extern "C" int kernel_launch(const float* x, int8_t* q, float* scale, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; ++r) {
        float peak = 0;
        for (int64_t c = 0; c < cols; ++c) peak = std::max(peak, std::fabs(x[r * cols + c]));
        scale[r] = peak / 127;
        const float inverse = 127 / peak;
        for (int64_t c = 0; c < cols / 2; ++c)
            q[r * cols + c] = static_cast<int8_t>(std::nearbyint(x[r * cols + c] * inverse));
    }
    return 0;
}
