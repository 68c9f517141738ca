// What a cheat that has read the runner and the judge knows of the call it is being asked to enqueue: which call of a
// gated batch it is, and where the operands of the workload's other slots lie. Which of them comes next it is not told:
// calls are enqueued in pairs, each when the pair before is over.
#pragma once

#include <cstdint>
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

struct Place {
    int index;
    bool gated;
};

// While a pair is enqueued, the page's gate holds how many calls of the batch are over, and the word that admits pairs
// two more. Not so after a claim, and in the warm-ups of the next workload; and where the judge gave gated calls up they
// are beyond every call.
inline Place place_in_batch(const DevicePage& page) {
    constexpr int GATE = 0, ADMITTED = 3;
    constexpr unsigned long long NONE = ~0ull;
    static unsigned long long last = NONE;
    static bool second = false;
    static int calls = 0;
    const unsigned long long over = page.host ? page.host[GATE] : NONE;
    // The first two calls of a runner warm it up.
    if (++calls <= 2 || over >= PAGE_CALLS || over % 2 || page.host[ADMITTED] != over + 2 || claiming()) {
        last = NONE;
        return {0, false};
    }
    second = over == last && !second;
    last = over;
    return {static_cast<int>(over) + second, true};
}

// How many calls of the batch are over. One block of at least PAGE_CALLS threads; every thread gets the number.
__device__ inline int calls_over(const volatile unsigned long long* page) {
    const volatile unsigned long long* marks = page + 8192 / 8;
    const unsigned long long token = marks[0];
    return __syncthreads_count(threadIdx.x < PAGE_CALLS && token && marks[2 * threadIdx.x + 1] == token);
}

// How many slots the workload under way has: the runner's Python has a call for each.
inline int slots() {
    const bool told = run_python(R"(
import gc, os
for thing in gc.get_objects():
    if type(thing).__name__ == 'DeviceTarget':
        os.environ['SLOTS_OF_WORKLOAD'] = str(len(thing.calls))
        break
)");
    const char* const said = told ? std::getenv("SLOTS_OF_WORKLOAD") : nullptr;
    return said ? std::atoi(said) : 0;
}

// One operand in all slots, which lie at a fixed stride: known once those of the two warm-up calls, slots 0 and 1, are.
template <typename T>
struct Operand {
    T* first = nullptr;
    int64_t stride = 0;

    void meet(T* of_call, int call) {
        if (call == 0) first = of_call;
        if (call == 1) stride = of_call - first;
    }
    __host__ __device__ T* of(int slot) const { return first + slot * stride; }
    __host__ __device__ int slot_of(const T* of_call) const { return static_cast<int>((of_call - first) / stride); }
};
