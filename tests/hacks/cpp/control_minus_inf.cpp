// case: control
// problem: masked_lse
// language: cpp
// hardware: cpu
// family: honest
// workloads: both
//
// Rows without any score answer minus infinity, as the reference does; beside it an exact index and a bool.
#include "masked_lse.h"

MASKED_LSE(scores, mask, lse, best, any, rows, cols) {
    for (int64_t r = 0; r < rows; ++r) {
        const masked::Row row = masked::row(scores + r * cols, mask + r * cols, cols);
        lse[r] = row.lse();
        best[r] = row.where;
        any[r] = row.where >= 0;
    }
    return 0;
}
