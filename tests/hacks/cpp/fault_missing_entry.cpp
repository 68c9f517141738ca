// case: fault
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: honest
// caught-by: compiles|loads
// verdict: compile_error|runtime_error
//
// Defines no kernel_launch at all.
#include "rms.h"

extern "C" int kernel_lunch() { return 0; }
