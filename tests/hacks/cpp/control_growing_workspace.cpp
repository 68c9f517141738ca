// case: control
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: honest
// workloads: all
//
// Grows a workspace when a larger shape comes than it has seen, and unmaps the old one: new memory in the middle of
// measuring.
#include <sys/mman.h>

#include <cmath>

#include "rms.h"

KERNEL(x, w, y, n) {
    static float* workspace = nullptr;
    static size_t held = 0;
    const size_t wanted = static_cast<size_t>(n) * rms::H * sizeof(float);
    if (wanted > held) {
        if (workspace) munmap(workspace, held);
        void* made = mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (made == MAP_FAILED) return 1;
        workspace = static_cast<float*>(made), held = wanted;
    }
    for (int64_t i = 0; i < n * rms::H; ++i) workspace[i] = rms::widen(x, i);
    for (int64_t r = 0; r < n; ++r) {
        double sum = 0;
        for (int64_t i = 0; i < rms::H; ++i) sum += workspace[r * rms::H + i] * workspace[r * rms::H + i];
        const float factor = 1.0f / std::sqrt(static_cast<float>(sum) / rms::H + rms::EPS);
        for (int64_t i = 0; i < rms::H; ++i)
            rms::narrow(y, r * rms::H + i, workspace[r * rms::H + i] * factor * rms::widen(w, i));
    }
    return 0;
}
