// Honest building blocks for the C++ cases of rmsnorm_h4096, so that a case file shows its trick and nothing else.
#pragma once

#include <cstdint>
#include <cstring>

#include "problem.h"

// The signature that problem.h declares, with the parameter names that the cases use.
#define KERNEL(x, w, y, rows) \
    extern "C" int kernel_launch(const ky::bf16* x, const ky::bf16* w, ky::bf16* y, int64_t rows)

namespace rms {

constexpr int64_t H = 4096;
constexpr float EPS = 1e-5f;

inline float widen(const ky::bf16* p, int64_t i) {
    uint16_t half;
    std::memcpy(&half, reinterpret_cast<const char*>(p) + 2 * i, 2);
    const uint32_t bits = static_cast<uint32_t>(half) << 16;
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}

inline uint16_t narrow_bits(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);  // NaN stays NaN
    return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

inline void narrow(ky::bf16* p, int64_t i, float value) {
    const uint16_t half = narrow_bits(value);
    std::memcpy(reinterpret_cast<char*>(p) + 2 * i, &half, 2);
}

inline float inverse_rms(const ky::bf16* row) {
    float sums[16] = {};
    for (int64_t i = 0; i < H; i += 16)
        for (int k = 0; k < 16; ++k) {
            const float v = widen(row, i + k);
            sums[k] += v * v;
        }
    float total = 0;
    for (float s : sums) total += s;
    return 1.0f / __builtin_sqrtf(total / static_cast<float>(H) + EPS);
}

inline void scale_row(const ky::bf16* row, const ky::bf16* w, ky::bf16* out, float factor, int64_t columns = H) {
    for (int64_t i = 0; i < columns; ++i) narrow(out, i, widen(row, i) * factor * widen(w, i));
}

// Rows [first, last) of the true result.
inline void rows(const ky::bf16* x, const ky::bf16* w, ky::bf16* y, int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) scale_row(x + r * H, w, y + r * H, inverse_rms(x + r * H));
}

inline int64_t bytes(int64_t n) { return n * H * 2; }

}  // namespace rms
