// case: fault
// problem: rmsnorm_h4096
// language: cuda
// hardware: gpu
// family: honest
// caught-by: in-time
// verdict: timeout
// timeout-s: 5
//
// A kernel that never ends.
#include "rms.cuh"

__global__ void forever(volatile int* flag) {
    while (*flag == 0) {}
}

KERNEL(x, w, y, n, stream) {
    static int* flag = nullptr;
    if (!flag && cudaMalloc(&flag, 4) != cudaSuccess) return 1;
    cudaMemsetAsync(flag, 0, 4, stream);
    forever<<<1, 1, 0, stream>>>(flag);
    return cudaGetLastError() != cudaSuccess;
}
