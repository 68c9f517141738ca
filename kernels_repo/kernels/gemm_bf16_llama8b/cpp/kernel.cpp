// Matrix product on a CPU in dot-product form: both operands have k contiguous, so a tile of ROWS x COLUMNS dot
// products loads ROWS + COLUMNS vectors for every ROWS * COLUMNS multiply-adds and needs no packing.

#include <cstdint>

#include "problem.h"

#define LANES 8               // tune: 4 8 16
#define ROWS 2                // tune: 1 2 4
#define COLUMNS 1             // tune: 1 2 4 6
#define DOT_INSTRUCTION 0     // tune: 0 1
#define PARALLEL_FROM 1000000 // tune: 64 512 1000000

typedef float vfloat __attribute__((vector_size(LANES * 4)));
typedef uint32_t vuint __attribute__((vector_size(LANES * 4)));
typedef uint32_t vpair __attribute__((vector_size(LANES * 4), aligned(2), may_alias));  // LANES pairs of bfloat16

#if DOT_INSTRUCTION && defined(__AVX512BF16__) && defined(__AVX512VL__)
#include <immintrin.h>

static inline vfloat multiply_add(vfloat sum, vuint a, vuint b) {
#if LANES == 16
    return (vfloat)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
#elif LANES == 8
    return (vfloat)_mm256_dpbf16_ps((__m256)sum, (__m256bh)a, (__m256bh)b);
#else
    return (vfloat)_mm_dpbf16_ps((__m128)sum, (__m128bh)a, (__m128bh)b);
#endif
}
#else
// The two halves of a pair become floats by a shift and a mask; the order of summation along k is free.
static inline vfloat multiply_add(vfloat sum, vuint a, vuint b) {
    sum += (vfloat)(a << 16) * (vfloat)(b << 16);
    return sum + (vfloat)(a & 0xffff0000u) * (vfloat)(b & 0xffff0000u);
}
#endif

static inline ky::bf16 rounded(float value) { return ky::bf16(value); }

template <int R, int C>
static void tile(const ky::bf16* a, const ky::bf16* weight, ky::bf16* c, int64_t n, int64_t k) {
    vfloat sums[R][C] = {};
    for (int64_t l = 0; l < k; l += 2 * LANES) {
        vuint left[R], right[C];
        for (int i = 0; i < R; ++i) left[i] = (vuint)*reinterpret_cast<const vpair*>(a + i * k + l);
        for (int j = 0; j < C; ++j) right[j] = (vuint)*reinterpret_cast<const vpair*>(weight + j * k + l);
        for (int i = 0; i < R; ++i) {
            for (int j = 0; j < C; ++j) sums[i][j] = multiply_add(sums[i][j], left[i], right[j]);
        }
    }
    for (int i = 0; i < R; ++i) {
        for (int j = 0; j < C; ++j) {
            float total = 0.0f;
            for (int lane = 0; lane < LANES; ++lane) total += sums[i][j][lane];
            c[i * n + j] = rounded(total);
        }
    }
}

// All rows of a against C rows of the weight, which stay in cache meanwhile.
template <int C>
static void strip(const ky::bf16* a, const ky::bf16* weight, ky::bf16* c, int64_t m, int64_t n, int64_t k) {
    int64_t i = 0;
    for (; i + ROWS <= m; i += ROWS) tile<ROWS, C>(a + i * k, weight, c + i * n, n, k);
    for (; i < m; ++i) tile<1, C>(a + i * k, weight, c + i * n, n, k);
}

extern "C" int kernel_launch(const ky::bf16* a, const ky::bf16* weight, ky::bf16* c, int64_t m, int64_t n,
                             int64_t k) {
    if (k % (2 * LANES) != 0) return 1;
    const int64_t strips = (n + COLUMNS - 1) / COLUMNS;
#pragma omp parallel for schedule(static) if (n >= PARALLEL_FROM)
    for (int64_t s = 0; s < strips; ++s) {
        const int64_t j = s * COLUMNS;
        if (j + COLUMNS <= n) {
            strip<COLUMNS>(a, weight + j * k, c + j, m, n, k);
        } else {
            for (int64_t rest = j; rest < n; ++rest) strip<1>(a, weight + rest * k, c + rest, m, n, k);
        }
    }
    return 0;
}
