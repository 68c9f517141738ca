// case: control
// problem: rowsum_f32
// language: cpp
// hardware: cpu
// family: honest
// workloads: both
//
// Reads everything once at the speed of the memory: as near to the bound as the candidate's cores get.
#include <cstdint>

#include "problem.h"

typedef float wide __attribute__((vector_size(64), aligned(4)));

extern "C" int kernel_launch(const float* x, float* y, int64_t rows, int64_t cols) {
#pragma omp parallel for
    for (int64_t r = 0; r < rows; ++r) {
        const float* row = x + r * cols;
        wide sums[4] = {};
        for (int64_t c = 0; c < cols; c += 64)
            for (int k = 0; k < 4; ++k) sums[k] += *reinterpret_cast<const wide*>(row + c + 16 * k);
        const wide all = sums[0] + sums[1] + sums[2] + sums[3];
        float total = 0;
        for (int l = 0; l < 16; ++l) total += all[l];
        y[r] = total;
    }
    return 0;
}
