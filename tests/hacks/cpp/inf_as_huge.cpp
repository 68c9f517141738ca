// case: exploit
// problem: masked_lse
// language: cpp
// hardware: cpu
// family: correctness
// caught-by: matches-reference
// verdict: incorrect
//
// Answers the most negative finite number where minus infinity is due: infinitely wrong, and cheaper to make.
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
        lse[r] = where < 0 ? std::numeric_limits<float>::lowest() : top + std::log(sum);
        best[r] = where;
        any[r] = where >= 0;
    }
    return 0;
}
