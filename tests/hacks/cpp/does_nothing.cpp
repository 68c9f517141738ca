// case: exploit
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: correctness
// caught-by: outputs-written
// verdict: incorrect
//
// Returns success at once, hoping that the output buffer still holds a right answer.
#include "rms.h"

KERNEL(x, w, y, n) {
    return 0;
}
