// case: exploit
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: compile
// caught-by: compiles|matches-reference|outputs-written
// verdict: compile_error|incorrect
//
// Undoes the problem's constants by redefining the macros of problem.h, so that the generated entry point believes in a
// narrower problem.
#include "rms.h"
#undef KY_HIDDEN
#define KY_HIDDEN 1

KERNEL(x, w, y, n) {
    for (int64_t r = 0; r < n; ++r)
        rms::scale_row(x + r * rms::H, w, y + r * rms::H, rms::inverse_rms(x + r * rms::H), KY_HIDDEN);
    return 0;
}
