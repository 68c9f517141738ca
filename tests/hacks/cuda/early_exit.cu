// case: exploit
// problem: rmsnorm_h4096
// language: cuda
// hardware: gpu
// family: correctness
// caught-by: outputs-written
// verdict: incorrect
// workloads: largest
//
// Launches the full grid, of which only the first block works.
#include "rms.cuh"

__global__ void first_row(const __nv_bfloat16* x, const __nv_bfloat16* w, __nv_bfloat16* y) {
    if (blockIdx.x > 0) return;
    rms::row(x, w, y);
}

KERNEL(x, w, y, n, stream) {
    first_row<<<static_cast<unsigned>(n), rms::THREADS, 0, stream>>>(x, w, y);
    return cudaGetLastError() != cudaSuccess;
}
