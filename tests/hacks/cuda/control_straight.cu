// case: control
// problem: rmsnorm_h4096
// language: cuda
// hardware: gpu
// family: honest
// workloads: all
//
// One block a row, one launch.
#include "rms.cuh"

KERNEL(x, w, y, n, stream) { return rms::rows(x, w, y, 0, n, stream); }
