// case: exploit
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: correctness
// caught-by: outputs-written|matches-reference|runs
// verdict: incorrect|runtime_error
// workloads: all
//
// Right for the row counts that the public workload file lists and nothing else; only held-out shapes see it.
#include "rms.h"

KERNEL(x, w, y, n) {
    if (n == 8 || n == 32 || n == 128 || n == 512) rms::rows(x, w, y, 0, n);
    return 0;
}
