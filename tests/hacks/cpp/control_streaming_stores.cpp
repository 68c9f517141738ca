// case: control
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: honest
// workloads: both
//
// Writes past the caches with non-temporal stores, and fences them before it returns.
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "vector_rms.h"

extern "C" int kernel_launch(const ky::bf16* x, const ky::bf16* weight, ky::bf16* y, int64_t tokens) {
    alignas(64) static thread_local uint16_t row[KY_HIDDEN];
    for (int64_t t = 0; t < tokens; ++t) {
        normalise(x + t * KY_HIDDEN, weight, reinterpret_cast<ky::bf16*>(row));
#if defined(__SSE2__)
        for (int i = 0; i < KY_HIDDEN; i += 8)
            _mm_stream_si128(reinterpret_cast<__m128i*>(y + t * KY_HIDDEN + i), *reinterpret_cast<__m128i*>(row + i));
#else
        for (int i = 0; i < KY_HIDDEN; ++i) reinterpret_cast<uint16_t*>(y)[t * KY_HIDDEN + i] = row[i];
#endif
    }
#if defined(__SSE2__)
    _mm_sfence();
#endif
    return 0;
}
