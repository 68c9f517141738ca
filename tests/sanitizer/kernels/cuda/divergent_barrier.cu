// Half of every block waits at a barrier that the other half never reaches.
#include "problem.h"

__global__ void twice(const float* x, float* y, int64_t cells) {
    __shared__ float staged[128];
    const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    staged[threadIdx.x] = i < cells ? x[i] : 0.0f;
    if (threadIdx.x % 2 == 0) {
        __syncthreads();  // FAULT
        staged[threadIdx.x] *= 2.0f;
    }
    if (i < cells) y[i] = threadIdx.x % 2 == 0 ? staged[threadIdx.x] : 2.0f * x[i];
}

extern "C" int kernel_launch(const float* x, float* y, int64_t rows, cudaStream_t stream) {
    const int64_t cells = rows * KY_COLUMNS;
    twice<<<(cells + 127) / 128, 128, 0, stream>>>(x, y, cells);
    return cudaGetLastError();
}
