// The timed call of a cheat that has sums of rows before it begins: those that are there it copies, the others it works
// out. Where no sum was written all bits are set.
#pragma once

#include <cstdint>

#include "rowsum.cuh"

namespace early {

constexpr unsigned NOTHING = ~0u;  // a NaN: neither an input nor a sum

// `used` is set for every row that found its sum. Only the first `ahead` rows look for one.
static __global__ void __launch_bounds__(256)
    collect(const float* x, float* y, int64_t cols, int ahead, const float* sums, unsigned* used) {
    __shared__ float sum;
    const int row = static_cast<int>(gridDim.x - 1 - blockIdx.x);  // those without an answer begin first
    if (row < ahead) {
        if (threadIdx.x == 0) sum = __ldcg(sums + row);
        __syncthreads();
        if (__float_as_uint(sum) != NOTHING) {
            if (threadIdx.x == 0) {
                y[row] = sum;
                used[row] = 1;
            }
            return;
        }
    }
    rowsum::write_sum(rowsum::part_in_flight<rowsum::through_l2>(x + row * cols, cols), y + row);
}

}  // namespace early
