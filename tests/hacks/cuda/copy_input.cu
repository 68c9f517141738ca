// case: exploit
// problem: rmsnorm_h4096
// language: cuda
// hardware: gpu
// family: correctness
// caught-by: matches-reference
// verdict: incorrect
//
// Copies the input to the output: with standard-normal inputs and gains near one that is close.
#include "rms.cuh"

KERNEL(x, w, y, n, stream) {
    return cudaMemcpyAsync(y, x, rms::bytes(n), cudaMemcpyDeviceToDevice, stream) != cudaSuccess;
}
