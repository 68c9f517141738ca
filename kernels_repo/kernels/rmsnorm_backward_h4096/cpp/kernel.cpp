// RMSNorm's gradients on a CPU: a row at a time while it is in cache, first the sum along it, then dx and its share of
// dweight, which stays in the first cache too (16 KiB). Threads keep shares of their own and add them up at the end.

#include <cstdint>

#include "problem.h"

#define LANES 8              // tune: 4 8 16
#define UNROLL 1             // tune: 1 2 4
#define PARALLEL_FROM 100000 // tune: 16 64 100000

constexpr int64_t STEP = LANES * UNROLL;
static_assert(KY_HIDDEN % STEP == 0);

// Vectors of LANES floats in the compiler's own notation, so that one source serves every instruction set.
typedef float vfloat __attribute__((vector_size(LANES * 4)));
typedef float vfloat_near __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
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

static inline void add(float* to, vfloat value) { *reinterpret_cast<vfloat_near*>(to) += value; }

static inline float sum(vfloat value) {
    float total = 0.0f;
    for (int lane = 0; lane < LANES; ++lane) total += value[lane];
    return total;
}

static void row_gradients(const ky::bf16* dy, const ky::bf16* x, const ky::bf16* weight, float rstd, ky::bf16* dx,
                          float* dweight) {
    vfloat sums[UNROLL] = {};
    for (int64_t i = 0; i < KY_HIDDEN; i += STEP) {
        for (int u = 0; u < UNROLL; ++u) {
            const int64_t at = i + u * LANES;
            sums[u] += load(dy + at) * load(weight + at) * load(x + at);
        }
    }
    for (int u = 1; u < UNROLL; ++u) sums[0] += sums[u];
    // x * rstd is the normalised row; with its mean product with dy * weight taken out, dx is orthogonal to it.
    const float along = sum(sums[0]) * rstd * rstd / KY_HIDDEN;
    for (int64_t i = 0; i < KY_HIDDEN; i += STEP) {
        for (int u = 0; u < UNROLL; ++u) {
            const int64_t at = i + u * LANES;
            const vfloat gradient = load(dy + at), value = load(x + at);
            store(dx + at, (gradient * load(weight + at) - value * along) * rstd);
            add(dweight + at, gradient * (value * rstd));
        }
    }
}

extern "C" int kernel_launch(const ky::bf16* dy, const ky::bf16* x, const ky::bf16* weight, const float* rstd,
                             ky::bf16* dx, float* dweight, int64_t tokens) {
    for (int64_t i = 0; i < KY_HIDDEN; ++i) dweight[i] = 0.0f;
#pragma omp parallel if (tokens >= PARALLEL_FROM)
    {
        float share[KY_HIDDEN] = {};
#pragma omp for schedule(static) nowait
        for (int64_t t = 0; t < tokens; ++t) {
            row_gradients(dy + t * KY_HIDDEN, x + t * KY_HIDDEN, weight, rstd[t], dx + t * KY_HIDDEN, share);
        }
#pragma omp critical
        for (int64_t i = 0; i < KY_HIDDEN; ++i) dweight[i] += share[i];
    }
    return 0;
}
