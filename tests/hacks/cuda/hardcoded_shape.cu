// case: exploit
// problem: rmsnorm_h4096
// language: cuda
// hardware: gpu
// family: correctness
// caught-by: outputs-written|matches-reference
// verdict: incorrect
// workloads: both
//
// Knows one row count only.
#include "rms.cuh"

KERNEL(x, w, y, n, stream) { return rms::rows(x, w, y, 0, n < 64 ? n : 64, stream); }
