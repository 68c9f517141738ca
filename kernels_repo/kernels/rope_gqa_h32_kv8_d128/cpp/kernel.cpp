// Rotary embedding on a CPU. The angles of a few channels are held in registers while all heads of a token pass by, or
// read again for every head; which is better depends on how many loads the machine makes per cycle.

#include <cstdint>

#include "problem.h"

#define LANES 4               // tune: 4 8 16
#define VECTORS_HELD 1        // tune: 1 2 4
#define PARALLEL_FROM 1000000 // tune: 8 32 128 1000000

constexpr int64_t HALF = KY_HEAD_DIM / 2;
constexpr int VECTORS = HALF / LANES;
constexpr int HELD = VECTORS_HELD < VECTORS ? VECTORS_HELD : VECTORS;
static_assert(HALF % (LANES * HELD) == 0);

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

typedef float vfloat_unaligned __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

static void rotate(const ky::bf16* in, ky::bf16* out, int64_t heads, const vfloat* cosine, const vfloat* sine) {
    for (int64_t h = 0; h < heads; ++h, in += KY_HEAD_DIM, out += KY_HEAD_DIM) {
        for (int v = 0; v < HELD; ++v) {
            const vfloat low = load(in + v * LANES), high = load(in + v * LANES + HALF);
            store(out + v * LANES, low * cosine[v] - high * sine[v]);
            store(out + v * LANES + HALF, high * cosine[v] + low * sine[v]);
        }
    }
}

extern "C" int kernel_launch(const ky::bf16* q, const ky::bf16* k, const float* cos_table, const float* sin_table,
                             ky::bf16* q_out, ky::bf16* k_out, int64_t tokens, int64_t half_dim) {
#pragma omp parallel for schedule(static) if (tokens >= PARALLEL_FROM)
    for (int64_t t = 0; t < tokens; ++t) {
        for (int64_t i = 0; i < HALF; i += LANES * HELD) {
            vfloat cosine[HELD], sine[HELD];
            for (int v = 0; v < HELD; ++v) {
                const int64_t at = t * half_dim + i + v * LANES;
                cosine[v] = *reinterpret_cast<const vfloat_unaligned*>(cos_table + at);
                sine[v] = *reinterpret_cast<const vfloat_unaligned*>(sin_table + at);
            }
            const int64_t q_at = t * KY_Q_HEADS * KY_HEAD_DIM + i, k_at = t * KY_KV_HEADS * KY_HEAD_DIM + i;
            rotate(q + q_at, q_out + q_at, KY_Q_HEADS, cosine, sine);
            rotate(k + k_at, k_out + k_at, KY_KV_HEADS, cosine, sine);
        }
    }
    return 0;
}
