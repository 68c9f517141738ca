// case: exploit
// problem: rmsnorm_h4096
// language: cuda
// hardware: gpu
// family: correctness
// caught-by: matches-reference
// verdict: incorrect
//
// Clears the output and nothing more.
#include "rms.cuh"

KERNEL(x, w, y, n, stream) { return cudaMemsetAsync(y, 0, rms::bytes(n), stream) != cudaSuccess; }
