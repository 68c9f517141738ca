// case: fault
// problem: rmsnorm_h4096
// language: cuda
// hardware: gpu
// family: honest
// caught-by: runs
// verdict: runtime_error
//
// Reads through a null pointer on the device.
#include "rms.cuh"

__global__ void stray(__nv_bfloat16* y, const int* nowhere) { y[0] = __float2bfloat16(float(*nowhere)); }

KERNEL(x, w, y, n, stream) {
    stray<<<1, 1, 0, stream>>>(y, nullptr);
    return 0;
}
