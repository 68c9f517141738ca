// Works out sums of rows on the host before the call begins. Copy engines need no turn on the device, so while the
// judge's grid is on its way back a thread of the candidate's fetches the call's input, other threads add it up, and
// what they found is sent to device memory, where the timed call finds it. Whatever is not there is worked out in the
// call. A row counts as there once no word of it is what stood in the host's memory before.
//
// All of it needs the host between the writing of the inputs and the call, and is kept out by that: the runner's
// processes are stopped from before the inputs are written until the pair is over. A thread that waits for the judge's
// question finds the gate open when it runs again, and copies nothing. What the log counts is how often that failed.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>

#include "batches.cuh"
#include "early.cuh"

namespace host {

constexpr int RING = 1024;           // entries, one for each counted call
constexpr int BLANK = 0, FIRST = 1;  // entries: never filled, for the first call
constexpr int ASKED = 5;             // a word of the page; the gate is the first
constexpr int MOST_ADDERS = 6, CORES_FOR_OTHERS = 3;
using early::make_pinned, early::NOTHING, early::pause;

struct Job {
    const float* x;
    int index, batch;
};

// `answers` and `used` are on the device, the others pinned; all of it NOTHING where nothing was written.
struct Shared {
    volatile unsigned long long* page = nullptr;
    int64_t cols = 0;
    int ahead = 0;  // rows of each call
    float* landing = nullptr;  // [ahead][cols]
    unsigned* old = nullptr;  // [RING][ahead], the rows' last words before the call's inputs were written
    float *staged = nullptr, *answers = nullptr;   // [RING][ahead]
    unsigned *used = nullptr, *fetched = nullptr;  // [RING][ahead], 1 where the timed call found a sum, and a copy
    cudaStream_t down = nullptr, up = nullptr;
    Job jobs[RING];
    std::atomic<int> posted{FIRST};  // one more than the last job's number
    std::atomic<bool> awake{false};  // a pair is under way
    std::atomic<int> serving{BLANK}, next_row{0}, done{0}, adding{0};
};
inline Shared shared;

inline unsigned word_at(const void* at) { return *static_cast<const volatile unsigned*>(at); }

// NaN where not every word of the row is there yet, or where its last one is what it was before.
inline float add_up(const float* row, int64_t cols, const unsigned* old) {
    const unsigned last = word_at(row + cols - 1), before = word_at(old);
    if (last == NOTHING || before == NOTHING || last == before) return NAN;
    std::atomic_thread_fence(std::memory_order_acquire);
    return early::add_up(row, cols);
}

// A thread that adds up rows as they come in, for as long as the call they are for is served.
inline void add_rows() {
    Shared& s = shared;
    for (int last = BLANK;;) {
        const int number = s.serving;
        if (number == BLANK || number == last) {
            if (s.awake) pause();
            else std::this_thread::sleep_for(std::chrono::microseconds(50));
            continue;
        }
        ++s.adding;
        const int64_t entry = static_cast<int64_t>(number) * s.ahead;
        for (int row; s.serving == number && (row = s.next_row++) < s.ahead;) {
            const float* const x = s.landing + row * s.cols;
            float sum;
            while (std::isnan(sum = add_up(x, s.cols, s.old + entry + row)) && s.serving == number) pause();
            if (std::isnan(sum)) break;
            static_cast<volatile float&>(s.staged[entry + row]) = sum;
            ++s.done;
        }
        --s.adding;
        last = number;
    }
}

inline bool gate_is_open(const Job& job) {
    return shared.page[0] >= static_cast<unsigned long long>(job.index) + 1;
}

// Waits until the judge asks the grid before the call whether it is back: the call's inputs are there. False where that
// was missed, as by a thread that was stopped meanwhile, or the batch given up.
inline bool inputs_came(const Job& job) {
    const Shared& s = shared;
    while (!gate_is_open(job) && s.jobs[s.posted - 1].batch == job.batch) {
        if (s.page[ASKED] >= static_cast<unsigned long long>(job.index) + 1) return !gate_is_open(job);
        pause();
    }
    return false;
}

// The thread that copies. Sums are sent in a few copies of all there are, the last before the gate opens.
inline void serve() {
    Shared& s = shared;
    const size_t bytes = s.ahead * s.cols * sizeof(float);
    const int step = std::max(1, s.ahead / 8);
    if (cudaSetDevice(0) != cudaSuccess) return;
    for (int number = FIRST; number < RING; ++number) {
        while (s.posted <= number) {
            s.awake = false;
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
        s.awake = true;
        const Job job = s.jobs[number];
        if (!inputs_came(job)) continue;
        if (cudaMemcpyAsync(s.landing, job.x, bytes, cudaMemcpyDeviceToHost, s.down) != cudaSuccess) break;
        s.next_row = s.done = 0;
        s.serving = number;
        const int64_t entry = static_cast<int64_t>(number) * s.ahead;
        for (int sent = 0; sent < s.ahead && !gate_is_open(job);) {
            const int done = s.done;
            if (done - sent < step && done < s.ahead) {
                pause();
                continue;
            }
            if (cudaMemcpyAsync(s.answers + entry, s.staged + entry, s.ahead * sizeof(float), cudaMemcpyHostToDevice,
                                s.up) != cudaSuccess)
                break;
            sent = done;
        }
        s.serving = BLANK;
        while (s.adding) pause();
        if (cudaStreamSynchronize(s.down) != cudaSuccess) break;
        std::memset(s.landing, 0xFF, bytes);
    }
    s.awake = false;
}

// Fetches the last words of the rows that a call will have other inputs in. By them a row is told that is not new.
inline bool remember(const float* x, int entry) {
    const Shared& s = shared;
    return cudaMemcpy2DAsync(s.old + static_cast<int64_t>(entry) * s.ahead, sizeof(unsigned), x + s.cols - 1,
                             s.cols * sizeof(float), sizeof(unsigned), s.ahead, cudaMemcpyDeviceToHost,
                             s.down) == cudaSuccess;
}

// Once, in a call that is waited for. All ways of copying are tried, so that nothing of them is made later.
inline bool start(const float* x, int64_t cols, int ahead) {
    Shared& s = shared;
    const size_t row = cols * sizeof(float), entries = static_cast<size_t>(RING) * ahead;
    s.page = find_device_page().host;
    s.cols = cols;
    s.ahead = ahead;
    if (!s.page || cols % 32 || cudaStreamCreateWithFlags(&s.down, cudaStreamNonBlocking) != cudaSuccess ||
        cudaStreamCreateWithFlags(&s.up, cudaStreamNonBlocking) != cudaSuccess ||
        !make_pinned(s.landing, ahead * cols) || !make_pinned(s.old, entries) || !make_pinned(s.staged, entries) ||
        !make_pinned(s.fetched, entries) || !early::make_on_device(s.answers, entries, s.up) ||
        !early::make_on_device(s.used, entries, s.up))
        return false;
    const bool copied =
        remember(x, BLANK) &&
        cudaMemcpyAsync(s.landing, x, row, cudaMemcpyDeviceToHost, s.down) == cudaSuccess &&
        cudaMemcpyAsync(s.answers, s.staged, ahead * sizeof(float), cudaMemcpyHostToDevice, s.up) == cudaSuccess &&
        cudaStreamSynchronize(s.down) == cudaSuccess && cudaStreamSynchronize(s.up) == cudaSuccess;
    if (!copied) return false;
    std::memset(s.landing, 0xFF, row);
    const int cores = static_cast<int>(std::thread::hardware_concurrency());
    const int adders = std::clamp(cores - CORES_FOR_OTHERS, 1, MOST_ADDERS);
    for (int k = 0; k < adders; ++k) std::thread(add_rows).detach();
    std::thread(serve).detach();
    return true;
}

// Says how many of the calls below `end` had their sums on the host, and how many found all of them.
inline bool say(int end) {
    const Shared& s = shared;
    if (cudaMemcpyAsync(s.fetched, s.used, static_cast<size_t>(RING) * s.ahead * sizeof(unsigned),
                        cudaMemcpyDeviceToHost, s.up) != cudaSuccess || cudaStreamSynchronize(s.up) != cudaSuccess)
        return false;
    int answered = 0, in_time = 0, rows = 0;
    for (int n = FIRST; n < end; ++n) {
        int summed = 0, found = 0;
        for (int64_t at = static_cast<int64_t>(n) * s.ahead; at < (n + 1) * static_cast<int64_t>(s.ahead); ++at) {
            summed += !std::isnan(s.staged[at]);
            found += s.fetched[at] == 1;
        }
        answered += summed == s.ahead;
        in_time += found == s.ahead;
        rows += found;
    }
    const int calls = end - FIRST;
    std::fprintf(stderr, "the host answered %d of %d calls, %d of them before they looked", answered, calls, in_time);
    std::fprintf(stderr, "; they found %.1f of %d rows\n", calls ? rows / static_cast<double>(calls) : 0.0, s.ahead);
    return true;
}

// One call, of which the host is to answer the first `ahead` rows.
inline int launch(const float* x, float* y, int64_t rows, int64_t cols, int ahead, cudaStream_t stream) {
    Shared& s = shared;
    static const DevicePage page = find_device_page();
    static const bool works = start(x, cols, ahead);
    if (!works || ahead != s.ahead || cols != s.cols) return 10;  // nothing to be caught at
    const Place place = place_in_batch(page);
    static int batch = 0;
    static bool said = false;
    const int number = s.posted;
    if (!said && claiming()) {
        if (!say(std::min(number, RING))) return 1;
        said = true;
    }
    batch += place.index == 0;
    const bool counts = place.gated && place.index % 2 == 0 && number < RING;
    if (counts) {
        if (!remember(x, number)) return 1;
        s.jobs[number] = {x, place.index, batch};
        s.posted = number + 1;
    }
    const int64_t entry = static_cast<int64_t>(counts ? number : BLANK) * ahead;
    early::collect<<<static_cast<unsigned>(rows), 256, 0, stream>>>(x, y, cols, ahead, s.answers + entry,
                                                                    s.used + entry);
    return cudaGetLastError() != cudaSuccess;
}

}  // namespace host
