// An honest row of masked_lse, for the C++ cases of that problem.
#pragma once

#include <cstdint>
#include <limits>

#include "problem.h"

#define MASKED_LSE(scores, mask, lse, best, any, rows, cols)                                                   \
    extern "C" int kernel_launch(const float* scores, const bool* mask, float* lse, int32_t* best, bool* any, \
                                 int64_t rows, int64_t cols)

namespace masked {

struct Row {
    float top, sum;
    int32_t where;  // -1 where nothing is let through

    float lse() const { return where < 0 ? top : top + __builtin_logf(sum); }
};

inline Row row(const float* s, const bool* m, int64_t cols) {
    Row found{-std::numeric_limits<float>::infinity(), 0, -1};
    for (int64_t c = 0; c < cols; ++c)
        if (m[c] && s[c] > found.top) found.top = s[c], found.where = static_cast<int32_t>(c);
    for (int64_t c = 0; c < cols; ++c)
        if (m[c]) found.sum += __builtin_expf(s[c] - found.top);
    return found;
}

}  // namespace masked
