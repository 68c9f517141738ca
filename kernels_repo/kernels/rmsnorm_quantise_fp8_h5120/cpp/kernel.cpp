// RMSNorm and quantisation on a CPU: one pass for the squares, one for the largest magnitude, one to write.

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>

#include "problem.h"

constexpr float EPSILON = 1e-6f, LARGEST = 448.0f;
constexpr int64_t PARALLEL_FROM = 32;  // tokens

// Rounds to nearest, ties to even; magnitudes up to 448 only.
static inline uint8_t to_e4m3(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffffu;
    const uint32_t normal = ((magnitude + 0x7ffffu + ((magnitude >> 20) & 1u)) >> 20) - (120u << 3);
    // Below 2^-6 numbers are multiples of 2^-9; adding 1.5 * 2^23 leaves the nearest whole number in the low bits.
    const float shifted = std::bit_cast<float>(magnitude) * 512.0f + 12582912.0f;
    const uint32_t subnormal = std::bit_cast<uint32_t>(shifted) - 0x4b400000u;
    return static_cast<uint8_t>((magnitude < 0x3c800000u ? subnormal : normal) | ((bits >> 24) & 0x80u));
}

static void quantise(const ky::bf16* x, const ky::bf16* weight, uint8_t* q, float* scale) {
    alignas(64) float row[KY_HIDDEN];
    constexpr int LANES = 16;  // independent sums, so that the loop vectorises
    float squares[LANES] = {}, peaks[LANES] = {};
    for (int64_t i = 0; i < KY_HIDDEN; i += LANES) {
        for (int lane = 0; lane < LANES; ++lane) {
            const float value = x[i + lane];
            squares[lane] += value * value;
        }
    }
    float total = 0.0f;
    for (const float square : squares) total += square;
    const float inverse_rms = 1.0f / std::sqrt(total / KY_HIDDEN + EPSILON);
    for (int64_t i = 0; i < KY_HIDDEN; i += LANES) {
        for (int lane = 0; lane < LANES; ++lane) {
            row[i + lane] = x[i + lane] * inverse_rms * weight[i + lane];
            const float size = std::fabs(row[i + lane]);
            peaks[lane] = size > peaks[lane] ? size : peaks[lane];
        }
    }
    float peak = 0.0f;
    for (const float lane : peaks) peak = std::max(peak, lane);
    *scale = peak / LARGEST;
    const float divisor = std::max(*scale, FLT_MIN);
    for (int64_t i = 0; i < KY_HIDDEN; ++i) {
        const float value = row[i] / divisor;
        q[i] = to_e4m3(value > LARGEST ? LARGEST : value < -LARGEST ? -LARGEST : value);
    }
}

extern "C" int kernel_launch(
    const ky::bf16* x, const ky::bf16* weight, uint8_t* q, float* scale, int64_t tokens) {
#pragma omp parallel for schedule(static) if (tokens >= PARALLEL_FROM)
    for (int64_t t = 0; t < tokens; ++t) quantise(x + t * KY_HIDDEN, weight, q + t * KY_HIDDEN, scale + t);
    return 0;
}
