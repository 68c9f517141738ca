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
#include "masked_lse.h"

#include <bit>

MASKED_LSE(scores, mask, lse, best, any, rows, cols) {
    for (int64_t r = 0; r < rows; ++r) {
        const float* s = scores + r * cols;
        const bool* m = mask + r * cols;
        masked::Row row = masked::row(s, m, cols);
        for (int64_t c = 0; c < cols; ++c)  // the first that looks as large
            if (m[c] && std::bit_cast<uint32_t>(s[c]) >> 16 == std::bit_cast<uint32_t>(row.top) >> 16) {
                row.where = static_cast<int32_t>(c);
                break;
            }
        lse[r] = row.lse();
        best[r] = row.where;
        any[r] = row.where >= 0;
    }
    return 0;
}
