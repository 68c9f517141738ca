// Cross-entropy on a CPU: a row is read once from memory, block by block; each block's maximum and sum of exponentials
// join the row's running pair.

#include <cmath>
#include <cstdint>

#include "problem.h"

#define LANES 4               // tune: 4 8 16
#define UNROLL 1              // tune: 1 2 4
#define BLOCK 1336            // tune: 1336 2672 5344 16032
#define PARALLEL_FROM 1000000 // tune: 2 4 1000000

// The vocabulary in blocks, and a block in steps, both without rest except for the steps' own.
static_assert(KY_VOCAB % BLOCK == 0);
constexpr int64_t STEP = LANES * UNROLL;
constexpr int64_t BODY = BLOCK / STEP * STEP;

// Vectors of LANES floats in the compiler's own notation, so that one source serves every instruction set.
typedef float vfloat __attribute__((vector_size(LANES * 4)));
typedef uint32_t vuint __attribute__((vector_size(LANES * 4)));
typedef uint16_t vhalf __attribute__((vector_size(LANES * 2), aligned(2), may_alias));

static inline vfloat load(const ky::bf16* from) {
    const vhalf bits = *reinterpret_cast<const vhalf*>(from);
    return reinterpret_cast<vfloat>(__builtin_convertvector(bits, vuint) << 16);
}

static inline float sum(vfloat value) {
    float total = 0.0f;
    for (int lane = 0; lane < LANES; ++lane) total += value[lane];
    return total;
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

struct Running {
    float maximum = -INFINITY, total = 0.0f;
};

static Running block(const ky::bf16* x) {
    vfloat maxima[UNROLL], totals[UNROLL] = {};
    for (int u = 0; u < UNROLL; ++u) maxima[u] = vfloat{} - INFINITY;
    for (int64_t i = 0; i < BODY; i += STEP) {
        for (int u = 0; u < UNROLL; ++u) {
            const vfloat value = load(x + i + u * LANES);
            maxima[u] = value > maxima[u] ? value : maxima[u];
        }
    }
    Running result;
    for (int u = 0; u < UNROLL; ++u) {
        for (int lane = 0; lane < LANES; ++lane) {
            result.maximum = maxima[u][lane] > result.maximum ? maxima[u][lane] : result.maximum;
        }
    }
    for (int64_t i = BODY; i < BLOCK; ++i) {
        const float value = static_cast<float>(x[i]);
        result.maximum = value > result.maximum ? value : result.maximum;
    }
    for (int64_t i = 0; i < BODY; i += STEP) {
        for (int u = 0; u < UNROLL; ++u) totals[u] += exponential(load(x + i + u * LANES) - result.maximum);
    }
    for (int u = 0; u < UNROLL; ++u) result.total += sum(totals[u]);
    for (int64_t i = BODY; i < BLOCK; ++i) result.total += std::exp(static_cast<float>(x[i]) - result.maximum);
    return result;
}

extern "C" int kernel_launch(const ky::bf16* logits, const int64_t* targets, float* loss, float* lse,
                             int64_t tokens) {
#pragma omp parallel for schedule(static) if (tokens >= PARALLEL_FROM)
    for (int64_t t = 0; t < tokens; ++t) {
        const ky::bf16* row = logits + t * KY_VOCAB;
        Running running;
        for (int64_t i = 0; i < KY_VOCAB; i += BLOCK) {
            const Running next = block(row + i);
            const float maximum = next.maximum > running.maximum ? next.maximum : running.maximum;
            running.total = running.total * std::exp(running.maximum - maximum) +
                            next.total * std::exp(next.maximum - maximum);
            running.maximum = maximum;
        }
        lse[t] = running.maximum + std::log(running.total);
        loss[t] = lse[t] - static_cast<float>(row[targets[t]]);
    }
    return 0;
}
