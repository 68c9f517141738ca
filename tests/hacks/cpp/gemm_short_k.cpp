// case: exploit
// problem: gemm_bf16_llama8b
// language: cpp
// hardware: cpu
// family: correctness
// caught-by: matches-reference
// verdict: incorrect
//
// Leaves out the last sixteenth of the inner dimension.
#include "gemm.h"

GEMM(a, w, c, m, n, k) {
    gemm::rows(a, w, c, 0, m, n, k, k - k / 16);
    return 0;
}
