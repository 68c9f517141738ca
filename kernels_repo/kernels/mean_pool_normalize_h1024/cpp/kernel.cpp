// Mean pooling and normalisation on a CPU: a sequence's tokens are added to a row of sums that stays in the first cache
// (4 KiB); the row then gives its own norm. The division by the length cancels and is left out.

#include <cmath>
#include <cstdint>

#include "problem.h"

#define LANES 8              // tune: 4 8 16
#define UNROLL 1             // tune: 1 2 4
#define TOKENS_AT_ONCE 1     // tune: 1 2 4
#define PARALLEL_FROM 100000 // tune: 64 512 100000

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

static inline vfloat_near& at_float(float* place) { return *reinterpret_cast<vfloat_near*>(place); }

// Adds COUNT neighbouring tokens to `sums`, which is read and written once for all of them.
template <int COUNT>
static void add_tokens(const ky::bf16* states, float* sums) {
    for (int64_t i = 0; i < KY_HIDDEN; i += STEP) {
        for (int u = 0; u < UNROLL; ++u) {
            const int64_t at = i + u * LANES;
            vfloat total = at_float(sums + at);
            for (int token = 0; token < COUNT; ++token) total += load(states + token * KY_HIDDEN + at);
            at_float(sums + at) = total;
        }
    }
}

static void pool(const ky::bf16* states, int64_t length, float* embedding) {
    for (int64_t i = 0; i < KY_HIDDEN; ++i) embedding[i] = 0.0f;
    int64_t t = 0;
    for (; t + TOKENS_AT_ONCE <= length; t += TOKENS_AT_ONCE) {
        add_tokens<TOKENS_AT_ONCE>(states + t * KY_HIDDEN, embedding);
    }
    for (; t < length; ++t) add_tokens<1>(states + t * KY_HIDDEN, embedding);
    vfloat squares = {};
    for (int64_t i = 0; i < KY_HIDDEN; i += LANES) squares += at_float(embedding + i) * at_float(embedding + i);
    float total = 0.0f;
    for (int lane = 0; lane < LANES; ++lane) total += squares[lane];
    const float inverse = 1.0f / std::sqrt(total);
    for (int64_t i = 0; i < KY_HIDDEN; i += LANES) at_float(embedding + i) *= inverse;
}

extern "C" int kernel_launch(const ky::bf16* states, const int32_t* indptr, float* embedding, int64_t batch,
                             int64_t tokens, int64_t /* offsets */) {
    // Lengths differ by orders of magnitude, so sequences are handed out one by one.
#pragma omp parallel for schedule(dynamic, 1) if (tokens >= PARALLEL_FROM)
    for (int64_t s = 0; s < batch; ++s) {
        pool(states + indptr[s] * int64_t{KY_HIDDEN}, indptr[s + 1] - indptr[s], embedding + s * KY_HIDDEN);
    }
    return 0;
}
