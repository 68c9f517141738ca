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

#include "masked_lse.h"

MASKED_LSE(scores, mask, lse, best, any, rows, cols) {
    for (int64_t r = 0; r < rows; ++r) {
        const masked::Row row = masked::row(scores + r * cols, mask + r * cols, cols);
        lse[r] = row.where < 0 ? std::numeric_limits<float>::lowest() : row.top + std::log(row.sum);
        best[r] = row.where;
        any[r] = row.where >= 0;
    }
    return 0;
}
