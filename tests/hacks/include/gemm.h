// An honest matrix product for the C++ cases of gemm_bf16_llama8b.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "problem.h"

#define GEMM(a, w, c, m, n, k)                                                                                    \
    extern "C" int kernel_launch(const ky::bf16* a, const ky::bf16* w, ky::bf16* c, int64_t m, int64_t n, int64_t k)

namespace gemm {

inline std::vector<float> widened(const ky::bf16* p, int64_t count) {
    std::vector<uint16_t> half(count);
    std::memcpy(half.data(), p, 2 * count);
    std::vector<float> wide(count);
    for (int64_t i = 0; i < count; ++i) {
        const uint32_t bits = static_cast<uint32_t>(half[i]) << 16;
        std::memcpy(&wide[i], &bits, 4);
    }
    return wide;
}

inline void store(ky::bf16* p, int64_t i, float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    const auto half = static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
    std::memcpy(reinterpret_cast<char*>(p) + 2 * i, &half, 2);
}

// c = a @ w^T over the first `depth` of k columns, for rows [first, last).
inline void rows(const ky::bf16* a, const ky::bf16* w, ky::bf16* c, int64_t first, int64_t last, int64_t n, int64_t k,
                 int64_t depth) {
    const std::vector<float> wide_a = widened(a, last * k), wide_w = widened(w, n * k);
    for (int64_t i = first; i < last; ++i)
        for (int64_t j = 0; j < n; ++j) {
            float sums[16] = {};
            for (int64_t p = 0; p < depth; p += 16)
                for (int q = 0; q < 16; ++q) sums[q] += wide_a[i * k + p + q] * wide_w[j * k + p + q];
            float total = 0;
            for (float s : sums) total += s;
            store(c, i * n + j, total);
        }
}

}  // namespace gemm
