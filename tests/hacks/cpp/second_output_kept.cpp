// case: exploit
// problem: masked_lse
// language: cpp
// hardware: cpu
// family: correctness
// caught-by: outputs-written
// verdict: incorrect
//
// Answers the first output and leaves the two small ones as they are.
#include "masked_lse.h"

MASKED_LSE(scores, mask, lse, best, any, rows, cols) {
    for (int64_t r = 0; r < rows; ++r) {
        const masked::Row row = masked::row(scores + r * cols, mask + r * cols, cols);
        lse[r] = row.lse();
        (void)best, (void)any;
    }
    return 0;
}
