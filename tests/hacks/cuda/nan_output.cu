// case: exploit
// problem: rmsnorm_h4096
// language: cuda
// hardware: gpu
// family: correctness
// caught-by: matches-reference
// verdict: incorrect
//
// Fills the output with NaN (0x7fff patterns).
#include "rms.cuh"

__global__ void fill(__nv_bfloat16* y, int64_t count) {
    for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < count; i += int64_t(gridDim.x) * blockDim.x)
        y[i] = __ushort_as_bfloat16(0x7fff);
}

KERNEL(x, w, y, n, stream) {
    fill<<<256, 256, 0, stream>>>(y, n * rms::H);
    return cudaGetLastError() != cudaSuccess;
}
