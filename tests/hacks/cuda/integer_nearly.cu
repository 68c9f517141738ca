// case: exploit
// problem: masked_lse
// language: cuda
// hardware: gpu
// family: correctness
// caught-by: matches-reference
// verdict: incorrect
// workloads: largest
//
// Finds the largest score by its upper sixteen bits only: nearly always the right index, which is not enough for
// integers.
#include "masked_lse.cuh"

__global__ void answer(const float* scores, const bool* mask, float* lse, int32_t* best, bool* any, int64_t cols) {
    const int64_t r = blockIdx.x;
    __shared__ int first;
    const masked::Row found = masked::row(scores + r * cols, mask + r * cols, cols);
    if (threadIdx.x == 0) first = found.where;
    __syncthreads();
    for (int64_t c = threadIdx.x; c < cols; c += masked::THREADS)  // the first that looks as large
        if (mask[r * cols + c] && __float_as_uint(scores[r * cols + c]) >> 16 == __float_as_uint(found.top) >> 16)
            atomicMin(&first, static_cast<int>(c));
    __syncthreads();
    if (threadIdx.x == 0) {
        lse[r] = found.where < 0 ? -INFINITY : found.top + logf(found.sum);
        best[r] = first;
        any[r] = found.where >= 0;
    }
}

MASKED_LSE(scores, mask, lse, best, any, rows, cols, stream) {
    answer<<<static_cast<unsigned>(rows), masked::THREADS, 0, stream>>>(scores, mask, lse, best, any, cols);
    return cudaGetLastError() != cudaSuccess;
}
