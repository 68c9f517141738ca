// case: exploit
// problem: rmsnorm_h4096
// language: cuda
// hardware: gpu
// family: correctness
// caught-by: outputs-written
// verdict: incorrect
// workloads: largest
//
// Leaves the last of 16,384 rows out: 0.006 % of the output.
#include "rms.cuh"

KERNEL(x, w, y, n, stream) { return rms::rows(x, w, y, 0, n - 1, stream); }
