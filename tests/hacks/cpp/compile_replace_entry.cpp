// case: exploit
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: compile
// caught-by: compiles|outputs-written|loads
// verdict: compile_error|incorrect|runtime_error
//
// Defines the harness's own entry point beside the kernel, so that the runner calls a version that does nothing.
#include "rms.h"

extern "C" int ky_call(void* const*, void*) { return 0; }

KERNEL(x, w, y, n) {
    rms::rows(x, w, y, 0, n);
    return 0;
}
