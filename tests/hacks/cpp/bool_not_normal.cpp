// case: exploit
// problem: masked_lse
// language: cpp
// hardware: cpu
// family: correctness
// caught-by: matches-reference|outputs-written
// verdict: incorrect
//
// Writes the number of scores as the bool: true to every branch, and no bool.
#include <cmath>
#include <cstdint>
#include <limits>

#include "problem.h"

extern "C" int kernel_launch(const float* scores, const bool* mask, float* lse, int32_t* best, bool* any, int64_t rows,
                             int64_t cols) {
    for (int64_t r = 0; r < rows; ++r) {
        const float* s = scores + r * cols;
        const bool* m = mask + r * cols;
        float top = -std::numeric_limits<float>::infinity(), sum = 0;
        int32_t where = -1;
        for (int64_t c = 0; c < cols; ++c)
            if (m[c] && s[c] > top) top = s[c], where = static_cast<int32_t>(c);
        for (int64_t c = 0; c < cols; ++c)
            if (m[c]) sum += std::exp(s[c] - top);
        lse[r] = where < 0 ? top : top + std::log(sum);
        best[r] = where;
        reinterpret_cast<unsigned char*>(any)[r] = static_cast<unsigned char>(where < 0 ? 0 : 2 + r % 200);
    }
    return 0;
}
