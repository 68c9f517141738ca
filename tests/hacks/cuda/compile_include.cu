// case: exploit
// problem: rmsnorm_h4096
// language: cuda
// hardware: gpu
// family: compile
// caught-by: compiles
// verdict: compile_error
//
// Includes a header by absolute path from the host.
#include "canary.h"
#include "rms.cuh"
#include KY_CANARY_HEADER

KERNEL(x, w, y, n, stream) { return rms::rows(x, w, y, 0, n, stream) + KY_BAIT_ANSWER - 42; }
