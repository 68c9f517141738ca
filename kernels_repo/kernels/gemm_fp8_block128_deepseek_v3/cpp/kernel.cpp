// FP8 product on a CPU: activations decoded once, a row of weights at a time against all of them, block by block.

#include <array>
#include <cstdint>
#include <vector>

#include "problem.h"

constexpr int64_t BLOCK = 128;
constexpr int LANES = 16;  // independent sums, so that the loop vectorises
constexpr int64_t PARALLEL_FROM = 1 << 20;  // multiply-adds

static const std::array<float, 256> NUMBERS = [] {
    std::array<float, 256> made{};
    for (int byte = 0; byte < 256; ++byte) made[byte] = ky::from_e4m3(static_cast<uint8_t>(byte));
    return made;
}();

static inline float dot(const float* left, const float* right) {
    float sums[LANES] = {};
    for (int64_t i = 0; i < BLOCK; i += LANES) {
        for (int lane = 0; lane < LANES; ++lane) sums[lane] += left[i + lane] * right[i + lane];
    }
    float total = 0.0f;
    for (const float sum : sums) total += sum;
    return total;
}

extern "C" int kernel_launch(
    const uint8_t* a, const float* a_scale, const uint8_t* weight, const float* weight_scale, ky::bf16* c, int64_t m,
    int64_t n, int64_t k, int64_t k_blocks, int64_t /* n_blocks */) {
    std::vector<float> rows(static_cast<size_t>(m * k));
    for (int64_t i = 0; i < m * k; ++i) rows[i] = NUMBERS[a[i]];
#pragma omp parallel if (m * n * k >= PARALLEL_FROM)
    {
        std::vector<float> sums(static_cast<size_t>(m));
        std::array<float, BLOCK> column;
#pragma omp for schedule(static)
        for (int64_t j = 0; j < n; ++j) {
            sums.assign(sums.size(), 0.0f);
            for (int64_t b = 0; b < k_blocks; ++b) {
                const uint8_t* from = weight + j * k + b * BLOCK;
                for (int64_t l = 0; l < BLOCK; ++l) column[l] = NUMBERS[from[l]];
                const float tile = weight_scale[j / BLOCK * k_blocks + b];
                for (int64_t i = 0; i < m; ++i) {
                    const float block = dot(rows.data() + i * k + b * BLOCK, column.data());
                    sums[i] += block * (a_scale[i * k_blocks + b] * tile);
                }
            }
            for (int64_t i = 0; i < m; ++i) c[i * n + j] = sums[i];
        }
    }
    return 0;
}
