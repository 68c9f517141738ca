// An honest row of masked_lse by one block, for the CUDA cases of that problem.
#pragma once

#include <cfloat>
#include <cmath>

#include "problem.h"

#define MASKED_LSE(scores, mask, lse, best, any, rows, cols, stream)                                            \
    extern "C" int kernel_launch(const float* scores, const bool* mask, float* lse, int32_t* best, bool* any,  \
                                 int64_t rows, int64_t cols, cudaStream_t stream)

namespace masked {

constexpr int THREADS = 128;

struct Row {
    float top, sum;
    int where;  // -1 where nothing is let through
};

// The same in every thread. Ties go to the lower column, as the reference's do.
__device__ inline Row row(const float* scores, const bool* mask, int64_t cols) {
    __shared__ float tops[THREADS];
    __shared__ int wheres[THREADS];
    __shared__ float sums[THREADS];
    float top = -INFINITY;
    int where = -1;
    for (int64_t c = threadIdx.x; c < cols; c += THREADS)
        if (mask[c] && scores[c] > top) top = scores[c], where = static_cast<int>(c);
    tops[threadIdx.x] = top, wheres[threadIdx.x] = where;
    __syncthreads();
    for (int step = THREADS / 2; step; step /= 2) {
        if (threadIdx.x < step) {
            const int other = threadIdx.x + step;
            const bool better = wheres[other] >= 0 && (tops[other] > tops[threadIdx.x] ||
                (tops[other] == tops[threadIdx.x] && wheres[other] < wheres[threadIdx.x]));
            if (better || wheres[threadIdx.x] < 0) tops[threadIdx.x] = tops[other], wheres[threadIdx.x] = wheres[other];
        }
        __syncthreads();
    }
    top = tops[0], where = wheres[0];
    float sum = 0;
    if (where >= 0)
        for (int64_t c = threadIdx.x; c < cols; c += THREADS)
            if (mask[c]) sum += expf(scores[c] - top);
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int step = THREADS / 2; step; step /= 2) {
        if (threadIdx.x < step) sums[threadIdx.x] += sums[threadIdx.x + step];
        __syncthreads();
    }
    return {top, sums[0], where};
}

}  // namespace masked
