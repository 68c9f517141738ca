// case: fault
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: honest
// caught-by: compiles
// verdict: compile_error
//
// Defines kernel_launch with other parameters than problem.h declares.
#include "rms.h"

extern "C" int kernel_launch(const float*, float*, int) { return 0; }
