// case: exploit
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: compile
// caught-by: compiles|in-time
// verdict: compile_error|timeout
//
// A shared object of three hundred megabytes, to fill the cache and the disk of the host.
#include "rms.h"

asm(".section .data\n.globl ky_ballast\nky_ballast: .fill 300000000, 1, 1\n.previous");
extern "C" const char ky_ballast[];

KERNEL(x, w, y, n) {
    rms::rows(x, w, y, 0, n);
    return ky_ballast[n] == 2;
}
