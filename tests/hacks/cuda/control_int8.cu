// case: control
// problem: quantise_rows_i8
// language: cuda
// hardware: gpu
// family: honest
// workloads: both
//
// An output of single bytes, where no poison can be told from a result, compared exactly.
#include <cstdint>

#include "problem.h"
#include "quantise.cuh"

extern "C" int kernel_launch(const float* x, int8_t* q, float* scale, int64_t rows, int64_t cols, cudaStream_t stream) {
    quantise::rows<<<static_cast<unsigned>(rows), quantise::THREADS, 0, stream>>>(x, q, scale, cols, cols);
    return cudaGetLastError() != cudaSuccess;
}
