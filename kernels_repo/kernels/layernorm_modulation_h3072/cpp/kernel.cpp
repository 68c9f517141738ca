// LayerNorm with modulation on a CPU: mean, variance about the mean, result; a token's 6 KiB stay in the first cache.

#include <cmath>
#include <cstdint>

#include "problem.h"

#define LANES 8               // tune: 4 8 16
#define UNROLL 1              // tune: 1 2 4
#define STATISTICS_PASSES 2   // tune: 1 2
#define PARALLEL_FROM 1000000 // tune: 16 64 1000000

constexpr float EPSILON = 1e-6f;
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

struct Sums {
    float values, squares;
};

// Sums of (x - centre) and of its square over one token.
static Sums sums_about(const ky::bf16* x, float centre) {
    vfloat values[UNROLL] = {}, squares[UNROLL] = {};
    for (int64_t i = 0; i < KY_HIDDEN; i += STEP) {
        for (int u = 0; u < UNROLL; ++u) {
            const vfloat value = load(x + i + u * LANES) - centre;
            values[u] += value;
            squares[u] += value * value;
        }
    }
    for (int u = 1; u < UNROLL; ++u) {
        values[0] += values[u];
        squares[0] += squares[u];
    }
    return {sum(values[0]), sum(squares[0])};
}

static void modulate(const ky::bf16* x, const ky::bf16* scale, const ky::bf16* shift, ky::bf16* y) {
    // Any value near the data will do as a centre for sums that do not cancel; the first channel is at hand.
    const float first = load(x)[0];
    Sums sums = sums_about(x, first);
    float offset = sums.values / KY_HIDDEN;
    const float mean = first + offset;
    if (STATISTICS_PASSES == 2) {
        sums = sums_about(x, mean);
        offset = sums.values / KY_HIDDEN;
    }
    const float inverse = 1.0f / std::sqrt(sums.squares / KY_HIDDEN - offset * offset + EPSILON);
    for (int64_t i = 0; i < KY_HIDDEN; i += STEP) {
        for (int u = 0; u < UNROLL; ++u) {
            const int64_t at = i + u * LANES;
            store(y + at, (load(x + at) - mean) * inverse * (1.0f + load(scale + at)) + load(shift + at));
        }
    }
}

extern "C" int kernel_launch(const ky::bf16* x, const ky::bf16* scale, const ky::bf16* shift, ky::bf16* y,
                             int64_t batch, int64_t seq) {
    const int64_t tokens = batch * seq;
#pragma omp parallel for schedule(static) if (tokens >= PARALLEL_FROM)
    for (int64_t t = 0; t < tokens; ++t) {
        const int64_t sample = t / seq * KY_HIDDEN;
        modulate(x + t * KY_HIDDEN, scale + sample, shift + sample, y + t * KY_HIDDEN);
    }
    return 0;
}
