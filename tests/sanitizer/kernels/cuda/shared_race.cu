// Neighbours read what a thread of another warp writes to shared memory, with no barrier between.
#include "problem.h"

__global__ void twice(const float* x, float* y, int64_t cells) {
    __shared__ float staged[128];
    const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    staged[threadIdx.x] = i < cells ? x[i] : 0.0f;  // FAULT
    const float other = staged[(threadIdx.x + 64) % 128];
    if (i < cells) y[i] = 2.0f * x[i] + 0.0f * other;
}

extern "C" int kernel_launch(const float* x, float* y, int64_t rows, cudaStream_t stream) {
    const int64_t cells = rows * KY_COLUMNS;
    twice<<<(cells + 127) / 128, 128, 0, stream>>>(x, y, cells);
    return cudaGetLastError();
}
