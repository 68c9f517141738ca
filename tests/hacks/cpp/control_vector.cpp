// case: control
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: honest
// workloads: both
//
// The same vectors as in the exploits that are compared with it, and nothing else.
#include "vector_rms.h"
extern "C" int kernel_launch(const ky::bf16* x, const ky::bf16* weight, ky::bf16* y, int64_t tokens) {
    for (int64_t t = 0; t < tokens; ++t) normalise(x + t * KY_HIDDEN, weight, y + t * KY_HIDDEN);
    return 0;
}
