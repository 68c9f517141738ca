// case: exploit
// problem: softmax_softcap
// language: cpp
// hardware: cpu
// family: correctness
// caught-by: matches-reference
// verdict: incorrect
//
// Answers 1/columns for every probability: within a loose absolute tolerance of nearly all of them.
#include "problem.h"

#include <cstring>

extern "C" int kernel_launch(const ky::bf16* scores, float, float, ky::bf16* probs, int64_t rows, int64_t cols) {
    (void)scores;
    const float value = 1.0f / static_cast<float>(cols);
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    const auto half = static_cast<uint16_t>(bits >> 16);
    for (int64_t i = 0; i < rows * cols; ++i) std::memcpy(probs + i, &half, 2);
    return 0;
}
