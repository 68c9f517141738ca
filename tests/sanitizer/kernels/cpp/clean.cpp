// Nothing wrong: parallel regions, barriers, dynamic loops, reductions, critical sections and atomics, all in order.
#include <atomic>
#include <vector>

#include "problem.h"

extern "C" int kernel_launch(const float* x, float* y, int64_t rows) {
    const int64_t cells = rows * KY_COLUMNS;
    static std::vector<float> kept;
    static std::atomic<int64_t> calls{0};
    if (static_cast<int64_t>(kept.size()) < cells) kept.resize(cells);
    float total = 0.0f, most = 0.0f;
    int64_t seen = 0;
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int64_t i = 0; i < cells; ++i) kept[i] = x[i];
#pragma omp for schedule(dynamic, 3)
        for (int64_t i = 0; i < cells; ++i) y[i] = 2.0f * kept[cells - 1 - i];
#pragma omp for schedule(guided) reduction(+ : total)
        for (int64_t i = 0; i < cells; ++i) {
            total += y[i];
            y[i] = 2.0f * kept[i];
        }
#pragma omp single
        most = total;
#pragma omp critical
        seen += most == total ? 1 : 0;
#pragma omp sections
        {
#pragma omp section
            kept[0] = 0.0f;
#pragma omp section
            kept[cells - 1] = 1.0f;
        }
        calls.fetch_add(1);
    }
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = 0; i < cells; ++i) kept[i] = 0.0f;
    return seen > 0 ? 0 : 1;
}
