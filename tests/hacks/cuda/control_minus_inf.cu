// case: control
// problem: masked_lse
// language: cuda
// hardware: gpu
// family: honest
// workloads: both
//
// Rows without any score answer minus infinity, as the reference does; beside it an exact index and a bool.
#include "masked_lse.cuh"

__global__ void answer(const float* scores, const bool* mask, float* lse, int32_t* best, bool* any, int64_t cols) {
    const int64_t r = blockIdx.x;
    const masked::Row found = masked::row(scores + r * cols, mask + r * cols, cols);
    if (threadIdx.x == 0) {
        lse[r] = found.where < 0 ? -INFINITY : found.top + logf(found.sum);
        best[r] = found.where;
        any[r] = found.where >= 0;
    }
}

MASKED_LSE(scores, mask, lse, best, any, rows, cols, stream) {
    answer<<<static_cast<unsigned>(rows), masked::THREADS, 0, stream>>>(scores, mask, lse, best, any, cols);
    return cudaGetLastError() != cudaSuccess;
}
