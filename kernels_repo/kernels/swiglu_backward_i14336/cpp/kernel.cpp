// SwiGLU's gradients on a CPU: one pass over gradient, gate and up, one exponential of our own for both results.

#include <cstdint>

#include "problem.h"

#define LANES 4               // tune: 4 8 16
#define UNROLL 1              // tune: 1 2 4
#define PARALLEL_FROM 1000000 // tune: 2 8 32 1000000

constexpr int64_t STEP = LANES * UNROLL;
static_assert(KY_INTERMEDIATE % STEP == 0);

// Vectors of LANES floats in the compiler's own notation, so that one source serves every instruction set.
typedef float vfloat __attribute__((vector_size(LANES * 4)));
typedef uint32_t vuint __attribute__((vector_size(LANES * 4)));
typedef uint16_t vhalf __attribute__((vector_size(LANES * 2), aligned(2), may_alias));

static inline vfloat load(const ky::bf16* from) {
    const vhalf bits = *reinterpret_cast<const vhalf*>(from);
    return reinterpret_cast<vfloat>(__builtin_convertvector(bits, vuint) << 16);
}

// Rounds to nearest, ties to even; finite values only.
static inline void store(ky::bf16* to, vfloat value) {
    const vuint bits = reinterpret_cast<vuint>(value);
    *reinterpret_cast<vhalf*>(to) = __builtin_convertvector((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16, vhalf);
}

// e^x for x <= 88: 2^(whole + part) with a polynomial for the part, relative error about 3e-6; 0 far below.
static inline vfloat exponential(vfloat x) {
    const vfloat scaled = x * 1.44269504f;
    const vfloat clamped = scaled > -126.0f ? scaled : vfloat{} - 126.0f;
    const float magic = 12582912.0f;  // 1.5 * 2^23: adding it leaves the nearest whole number in the low bits
    const vfloat shifted = clamped + magic;
    const vfloat part = clamped - (shifted - magic);
    vfloat power = part * 1.3333558e-3f + 9.6181291e-3f;
    power = power * part + 5.5504109e-2f;
    power = power * part + 2.4022651e-1f;
    power = power * part + 6.9314718e-1f;
    power = power * part + 1.0f;
    return reinterpret_cast<vfloat>(reinterpret_cast<vuint>(power) + (reinterpret_cast<vuint>(shifted) << 23));
}

static void row_gradients(const ky::bf16* dy, const ky::bf16* gate_up, ky::bf16* dgate_up) {
    for (int64_t i = 0; i < KY_INTERMEDIATE; i += STEP) {
        vfloat dgate[UNROLL], dup[UNROLL];
        for (int u = 0; u < UNROLL; ++u) {
            const int64_t at = i + u * LANES;
            const vfloat gradient = load(dy + at), g = load(gate_up + at), up = load(gate_up + KY_INTERMEDIATE + at);
            // -g above 88 would overflow the exponential; the sigmoid is 0 to every digit long before.
            const vfloat negated = -g < 88.0f ? -g : vfloat{} + 88.0f;
            const vfloat sigmoid = 1.0f / (1.0f + exponential(negated));
            const vfloat silu = g * sigmoid;
            dgate[u] = gradient * up * (sigmoid + silu * (1.0f - sigmoid));
            dup[u] = gradient * silu;
        }
        for (int u = 0; u < UNROLL; ++u) {
            store(dgate_up + i + u * LANES, dgate[u]);
            store(dgate_up + KY_INTERMEDIATE + i + u * LANES, dup[u]);
        }
    }
}

extern "C" int kernel_launch(const ky::bf16* dy, const ky::bf16* gate_up, ky::bf16* dgate_up, int64_t tokens,
                             int64_t packed_width) {
#pragma omp parallel for schedule(static) if (tokens >= PARALLEL_FROM)
    for (int64_t t = 0; t < tokens; ++t) {
        row_gradients(dy + t * KY_INTERMEDIATE, gate_up + t * packed_width, dgate_up + t * packed_width);
    }
    return 0;
}
