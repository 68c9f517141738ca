// case: exploit
// problem: rmsnorm_h4096
// language: cuda
// hardware: gpu
// family: correctness
// caught-by: outputs-written
// verdict: incorrect
//
// Returns success and launches nothing.
#include "rms.cuh"

KERNEL(x, w, y, n, stream) { return 0; }
