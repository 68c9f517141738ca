// case: exploit
// problem: quantise_rows_i8
// language: cuda
// hardware: gpu
// family: correctness
// caught-by: matches-reference|outputs-written
// verdict: incorrect
//
// Leaves the second half of every row of a one-byte output unwritten: every leftover byte is a possible result.
#include <cstdint>

#include "problem.h"
#include "quantise.cuh"

extern "C" int kernel_launch(const float* x, int8_t* q, float* scale, int64_t rows, int64_t cols, cudaStream_t stream) {
    quantise::rows<<<static_cast<unsigned>(rows), quantise::THREADS, 0, stream>>>(x, q, scale, cols, cols / 2);
    return cudaGetLastError() != cudaSuccess;
}
