// Nothing wrong.
#include "problem.h"

__global__ void twice(const float* x, float* y, int64_t cells) {
    __shared__ float staged[128];
    const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    staged[threadIdx.x] = i < cells ? x[i] : 0.0f;
    __syncthreads();
    if (i < cells) y[i] = 2.0f * staged[threadIdx.x];
}

extern "C" int kernel_launch(const float* x, float* y, int64_t rows, cudaStream_t stream) {
    const int64_t cells = rows * KY_COLUMNS;
    twice<<<(cells + 127) / 128, 128, 0, stream>>>(x, y, cells);
    return cudaGetLastError();
}
