// Adds to an output that nothing has written yet.
#include "problem.h"

__global__ void twice(const float* x, float* y, int64_t cells) {
    const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    if (i < cells) {
        const float before = y[i];  // FAULT
        y[i] = 2.0f * x[i] + (before > 1.0e30f ? 1.0f : 0.0f);
    }
}

extern "C" int kernel_launch(const float* x, float* y, int64_t rows, cudaStream_t stream) {
    const int64_t cells = rows * KY_COLUMNS;
    twice<<<(cells + 127) / 128, 128, 0, stream>>>(x, y, cells);
    return cudaGetLastError();
}
