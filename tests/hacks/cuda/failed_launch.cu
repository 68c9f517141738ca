// case: exploit
// problem: rmsnorm_h4096
// language: cuda
// hardware: gpu
// family: correctness
// caught-by: outputs-written
// verdict: incorrect|runtime_error
//
// Launches with more threads than a block may have, swallows the error and reports success: very fast.
#include "rms.cuh"

KERNEL(x, w, y, n, stream) {
    rms::rows_kernel<<<static_cast<unsigned>(n), 4096, 0, stream>>>(x, w, y);
    (void)cudaGetLastError();
    return 0;
}
