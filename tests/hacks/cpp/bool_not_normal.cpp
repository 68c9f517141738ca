// case: exploit
// problem: masked_lse
// language: cpp
// hardware: cpu
// family: correctness
// caught-by: matches-reference|outputs-written
// verdict: incorrect
//
// Writes the number of scores as the bool: true to every branch, and no bool.
#include "masked_lse.h"

MASKED_LSE(scores, mask, lse, best, any, rows, cols) {
    for (int64_t r = 0; r < rows; ++r) {
        const masked::Row row = masked::row(scores + r * cols, mask + r * cols, cols);
        lse[r] = row.lse();
        best[r] = row.where;
        reinterpret_cast<unsigned char*>(any)[r] = static_cast<unsigned char>(row.where < 0 ? 0 : 2 + r % 200);
    }
    return 0;
}
