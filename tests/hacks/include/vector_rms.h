// The honest RMSNorm of one row in vectors of eight, for cases that compare what they hide with what it costs.
#pragma once
#include <cstdint>

#include "problem.h"

#define LANES 8
typedef float vfloat __attribute__((vector_size(LANES * 4)));
typedef uint32_t vuint __attribute__((vector_size(LANES * 4)));
typedef uint16_t vhalf __attribute__((vector_size(LANES * 2), aligned(2), may_alias));
static inline vfloat load(const ky::bf16* from) {
    const vhalf bits = *reinterpret_cast<const vhalf*>(from);
    return reinterpret_cast<vfloat>(__builtin_convertvector(bits, vuint) << 16);
}
static inline void store(ky::bf16* to, vfloat value) {
    const vuint bits = reinterpret_cast<vuint>(value);
    *reinterpret_cast<vhalf*>(to) = __builtin_convertvector((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16, vhalf);
}
static void normalise(const ky::bf16* x, const ky::bf16* weight, ky::bf16* y) {
    vfloat s = {};
    for (int64_t i = 0; i < KY_HIDDEN; i += LANES) { const vfloat v = load(x + i); s += v * v; }
    float total = 0;
    for (int l = 0; l < LANES; ++l) total += s[l];
    const float r = 1.0f / __builtin_sqrtf(total / KY_HIDDEN + 1e-5f);
    for (int64_t i = 0; i < KY_HIDDEN; i += LANES) store(y + i, load(x + i) * r * load(weight + i));
}
