// What a cheat that has read the runner and the judge knows of the call it is being asked to enqueue: which call of a
// gated batch it is, where its operands are, and those of the calls after it, once they are enqueued as well.
#pragma once

#include <chrono>
#include <cstdlib>

#include "device_page.cuh"
#include "python.h"

// Whether the runner is timing calls itself: its own program is patched to say so. A claim is enqueued like a batch.
inline bool claiming() {
    static const bool patched = run_python(R"(
import gc, os
for thing in gc.get_objects():
    if type(thing).__name__ == 'DeviceTarget':
        kind = type(thing)
        def do_claim(self, request, descriptors, honest=kind.do_claim):
            os.environ['TIMED_BY_ITSELF'] = '1'
            try:
                return honest(self, request, descriptors)
            finally:
                os.environ['TIMED_BY_ITSELF'] = ''
        kind.do_claim = do_claim
        break
)");
    const char* const said = patched ? std::getenv("TIMED_BY_ITSELF") : nullptr;
    return said && *said;
}

// Warm-ups come one by one and are waited for; a batch is enqueued in one go, behind a closed gate.
struct Place {
    int index;
    bool gated;
};

inline Place place_in_batch(const DevicePage& page) {
    using clock = std::chrono::steady_clock;
    static clock::time_point last;
    static int calls = 0, index = 0;
    const auto now = clock::now();
    index = now - last > std::chrono::microseconds(500) ? 0 : index + 1;
    last = now;
    // The first two calls of a runner warm it up.
    return {index, page.host && ++calls > 2 && page.host[0] == 0 && !claiming()};
}

// How many calls of the batch are over. One block of at least PAGE_CALLS threads; every thread gets the number.
__device__ inline int calls_over(const volatile unsigned long long* page) {
    const volatile unsigned long long* marks = page + 8192 / 8;
    const unsigned long long token = marks[0];
    return __syncthreads_count(threadIdx.x < PAGE_CALLS && token && marks[2 * threadIdx.x + 1] == token);
}

// A table of operands in pinned memory, filled while calls are enqueued and read on the device when they run.
template <typename Operands>
struct Table {
    static constexpr int SIZE = 4096;
    Operands* entries = nullptr;
    volatile int* posted = nullptr;

    bool make() {
        if (entries) return true;
        void* held = nullptr;
        if (cudaHostAlloc(&held, SIZE * sizeof(Operands) + 64, cudaHostAllocMapped) != cudaSuccess) return false;
        std::memset(held, 0, SIZE * sizeof(Operands) + 64);
        posted = static_cast<int*>(held);
        entries = reinterpret_cast<Operands*>(static_cast<char*>(held) + 64);
        return true;
    }
    int post(const Operands& operands) {
        const int number = *posted;
        entries[number % SIZE] = operands;
        *posted = number + 1;
        return number;
    }
};
