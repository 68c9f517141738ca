// Residual addition and RMSNorm on a CPU: the sum is stored and squared in one pass, then scaled from cache.

#include <cmath>
#include <cstdint>

#include "problem.h"

#define LANES 8              // tune: 4 8 16
#define UNROLL 1             // tune: 1 2 4 8
#define PARALLEL_FROM 100000 // tune: 8 32 128 100000

constexpr float EPSILON = 1e-5f;
constexpr int64_t STEP = LANES * UNROLL;
static_assert(KY_HIDDEN % STEP == 0);

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

static inline float sum(vfloat value) {
    float total = 0.0f;
    for (int lane = 0; lane < LANES; ++lane) total += value[lane];
    return total;
}

static void add_and_normalise(const ky::bf16* x, const ky::bf16* residual, const ky::bf16* weight, ky::bf16* y,
                              ky::bf16* residual_out) {
    vfloat squares[UNROLL] = {};
    for (int64_t i = 0; i < KY_HIDDEN; i += STEP) {
        for (int u = 0; u < UNROLL; ++u) {
            const int64_t at = i + u * LANES;
            store(residual_out + at, load(x + at) + load(residual + at));
            const vfloat rounded = load(residual_out + at);  // what is stored is what gets normalised
            squares[u] += rounded * rounded;
        }
    }
    for (int u = 1; u < UNROLL; ++u) squares[0] += squares[u];
    const float inverse_rms = 1.0f / std::sqrt(sum(squares[0]) / KY_HIDDEN + EPSILON);
    for (int64_t i = 0; i < KY_HIDDEN; i += STEP) {
        for (int u = 0; u < UNROLL; ++u) {
            const int64_t at = i + u * LANES;
            store(y + at, load(residual_out + at) * inverse_rms * load(weight + at));
        }
    }
}

extern "C" int kernel_launch(const ky::bf16* x, const ky::bf16* residual, const ky::bf16* weight, ky::bf16* y,
                             ky::bf16* residual_out, int64_t tokens) {
#pragma omp parallel for schedule(static) if (tokens >= PARALLEL_FROM)
    for (int64_t t = 0; t < tokens; ++t) {
        const int64_t row = t * KY_HIDDEN;
        add_and_normalise(x + row, residual + row, weight, y + row, residual_out + row);
    }
    return 0;
}
