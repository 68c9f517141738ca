// Soft-capped softmax on a CPU. The cap is monotone, so a row's largest exponent follows from its extreme scores, and
// a first pass of plain comparisons makes any cap safe. The exponentials are kept in single precision for the last
// pass, or computed again there.

#include <cmath>
#include <cstdint>
#include <vector>

#include "problem.h"

#define LANES 4               // tune: 4 8 16
#define UNROLL 1              // tune: 1 2 4
#define KEEP_EXPONENTIALS 0   // tune: 0 1
#define PARALLEL_FROM 1000000 // tune: 4 16 64 1000000

constexpr int64_t STEP = LANES * UNROLL;

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

struct Cap {
    float inner, cap;  // inner = 2 * scale / cap

    // cap * tanh(scale * x / cap) = cap - 2 * cap / (e^(2 * scale * x / cap) + 1)
    vfloat operator()(vfloat x) const {
        const vfloat argument = x * inner;
        const vfloat bounded = argument < 80.0f ? argument : vfloat{} + 80.0f;
        return cap - 2.0f * cap / (exponential(bounded) + 1.0f);
    }
};

static void softmax(const ky::bf16* scores, ky::bf16* probs, int64_t cols, Cap capped, float* kept) {
    vfloat largest = vfloat{} - INFINITY;
    const float sign = capped.inner < 0.0f ? -1.0f : 1.0f;
    const int64_t vectors = cols / LANES * LANES;
    for (int64_t c = 0; c < vectors; c += LANES) {
        const vfloat value = load(scores + c) * sign;
        largest = value > largest ? value : largest;
    }
    // A row's last, partial vector is padded with the row's first score, which changes no maximum.
    ky::bf16 rest[LANES], result[LANES];
    const int64_t left = cols - vectors;
    for (int64_t i = 0; i < LANES; ++i) rest[i] = scores[i < left ? vectors + i : 0];
    const vfloat padded = load(rest) * sign;
    largest = padded > largest ? padded : largest;
    float top = largest[0];
    for (int lane = 1; lane < LANES; ++lane) top = largest[lane] > top ? largest[lane] : top;
    const float shift = capped(vfloat{} + top * sign)[0];

    vfloat totals[UNROLL] = {};
    int64_t c = 0;
    for (; c + STEP <= vectors; c += STEP) {
        for (int u = 0; u < UNROLL; ++u) {
            const vfloat value = exponential(capped(load(scores + c + u * LANES)) - shift);
            if (KEEP_EXPONENTIALS) __builtin_memcpy(kept + c + u * LANES, &value, sizeof value);
            totals[u] += value;
        }
    }
    for (; c < vectors; c += LANES) {
        const vfloat value = exponential(capped(load(scores + c)) - shift);
        if (KEEP_EXPONENTIALS) __builtin_memcpy(kept + c, &value, sizeof value);
        totals[0] += value;
    }
    for (int u = 1; u < UNROLL; ++u) totals[0] += totals[u];
    const vfloat last = exponential(capped(load(rest)) - shift);
    float total = sum(totals[0]);
    for (int64_t i = 0; i < left; ++i) total += last[i];

    const float inverse = 1.0f / total;
    for (int64_t d = 0; d < vectors; d += LANES) {
        vfloat value;
        if (KEEP_EXPONENTIALS) {
            __builtin_memcpy(&value, kept + d, sizeof value);
        } else {
            value = exponential(capped(load(scores + d)) - shift);
        }
        store(probs + d, value * inverse);
    }
    store(result, last * inverse);
    for (int64_t i = 0; i < left; ++i) probs[vectors + i] = result[i];
}

extern "C" int kernel_launch(const ky::bf16* scores, float scale, float cap, ky::bf16* probs, int64_t rows,
                             int64_t cols) {
    if (cols == 0) return 0;
    const Cap capped{2.0f * scale / cap, cap};
#pragma omp parallel if (rows >= PARALLEL_FROM)
    {
        static thread_local std::vector<float> kept;
        if (KEEP_EXPONENTIALS && static_cast<int64_t>(kept.size()) < cols) kept.resize(cols);
#pragma omp for schedule(static)
        for (int64_t r = 0; r < rows; ++r) softmax(scores + r * cols, probs + r * cols, cols, capped, kept.data());
    }
    return 0;
}
