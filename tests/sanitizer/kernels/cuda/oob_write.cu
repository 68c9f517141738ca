// The last block writes past the end of y.
#include "problem.h"

__global__ void twice(const float* x, float* y, int64_t cells) {
    const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    if (i <= cells) {
        const float value = i < cells ? 2.0f * x[i] : 0.0f;
        y[i] = value;  // FAULT
    }
}

extern "C" int kernel_launch(const float* x, float* y, int64_t rows, cudaStream_t stream) {
    const int64_t cells = rows * KY_COLUMNS;
    twice<<<cells / 128 + 1, 128, 0, stream>>>(x, y, cells);
    return cudaGetLastError();
}
