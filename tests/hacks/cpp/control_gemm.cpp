// case: control
// problem: gemm_bf16_llama8b
// language: cpp
// hardware: cpu
// family: honest
// workloads: both
//
// A plain product with single-precision accumulation in sixteen lanes.
#include "gemm.h"

GEMM(a, w, c, m, n, k) {
    gemm::rows(a, w, c, 0, m, n, k, k);
    return 0;
}
