// case: fault
// problem: rmsnorm_h4096
// language: cuda
// hardware: gpu
// family: honest
// caught-by: runs
// verdict: runtime_error
//
// Reports that it failed.
#include "rms.cuh"

KERNEL(x, w, y, n, stream) { return 5; }
