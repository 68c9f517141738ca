// case: exploit
// problem: masked_lse
// language: cpp
// hardware: cpu
// family: correctness
// workloads: largest
// caught-by: matches-reference
// verdict: incorrect
//
// Finds the largest score by its upper sixteen bits only: nearly always the right index, which is not enough for
// integers.
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
        for (int64_t c = 0; c < cols; ++c)  // the first that looks as large
            if (m[c] && std::bit_cast<uint32_t>(s[c]) >> 16 == std::bit_cast<uint32_t>(top) >> 16) {
                where = static_cast<int32_t>(c);
                break;
            }
        lse[r] = where < 0 ? top : top + std::log(sum);
        best[r] = where;
        any[r] = where >= 0;
    }
    return 0;
}
