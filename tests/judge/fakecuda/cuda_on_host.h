// Just enough of CUDA C++ to compile the judge's device code (gate.cu) for the host: a block is an operating system
// thread, its threads are fibers of it that give way to each other at barriers. Spinning works between blocks only.
#pragma once

#include <sys/mman.h>
#include <ucontext.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

struct uint4 {
    unsigned x, y, z, w;
};
struct Index {
    unsigned x;
};

#define __device__
#define __global__
#define __launch_bounds__(...)
#define __shared__ static thread_local
#define KY_NOW_NS \
    static_cast<unsigned long long>(std::chrono::duration_cast<std::chrono::nanoseconds>( \
        std::chrono::steady_clock::now().time_since_epoch()).count())

struct Block {
    static constexpr size_t STACK = 16384;
    unsigned size, running = 0, waiting = 0, current = 0;
    unsigned long long generation = 0;
    ucontext_t scheduler;
    std::vector<ucontext_t> fibers;
    std::vector<unsigned long long> until;  // the barrier each fiber waits for, 0 if none
    std::vector<char> done;
    struct Warp {
        unsigned sum = 0, result = 0, arrived = 0, total = 0;
        unsigned long long generation = 0;
    };
    std::vector<Warp> warps;
    std::function<void()> body;
};

inline thread_local Block* block_here = nullptr;
inline thread_local Index threadIdx{}, blockIdx{}, blockDim{}, gridDim{};

inline void give_way() {
    Block& b = *block_here;
    const unsigned me = b.current;
    swapcontext(&b.fibers[me], &b.scheduler);
    threadIdx.x = b.current = me;
}

inline void __syncthreads() {
    Block& b = *block_here;
    const unsigned long long mine = b.generation;
    if (++b.waiting == b.running) {
        b.waiting = 0;
        ++b.generation;
        return;
    }
    while (b.generation == mine) give_way();
}

template <typename F>
inline unsigned reduced(unsigned value, F combined) {  // zero must change nothing
    Block& b = *block_here;
    Block::Warp& w = b.warps[threadIdx.x / 32];
    const unsigned long long mine = w.generation;
    w.sum = combined(w.sum, value);
    if (++w.arrived == w.total) {
        w.result = w.sum;
        w.sum = w.arrived = 0;
        ++w.generation;
        return w.result;
    }
    while (w.generation == mine) give_way();
    return w.result;
}

inline unsigned __reduce_add_sync(unsigned, unsigned value) {
    return reduced(value, [](unsigned a, unsigned b) { return a + b; });
}
inline unsigned __reduce_max_sync(unsigned, unsigned value) {
    return reduced(value, [](unsigned a, unsigned b) { return a < b ? b : a; });
}
inline unsigned __reduce_or_sync(unsigned, unsigned value) {
    return reduced(value, [](unsigned a, unsigned b) { return a | b; });
}

// Floats rounded after every operation: a volatile one is never part of a fused one.
inline float __fadd_rn(float a, float b) {
    volatile float sum = a + b;
    return sum;
}
inline float __fsub_rn(float a, float b) { return __fadd_rn(a, -b); }
inline float __fmul_rn(float a, float b) {
    volatile float product = a * b;
    return product;
}
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __uint_as_float(unsigned bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
inline unsigned __float_as_uint(float value) {
    unsigned bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline void __threadfence_system() { __threadfence(); }
template <typename T>
inline T __ldcg(const T* from) {
    if (reinterpret_cast<std::uintptr_t>(from) % sizeof(T)) std::abort();  // a device would not read it either
    return *from;
}
template <typename T>
inline T atomicAdd(T* at, T value) {
    return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST);
}
inline unsigned atomicOr(unsigned* at, unsigned value) { return __atomic_fetch_or(at, value, __ATOMIC_SEQ_CST); }
inline unsigned atomicMax(unsigned* at, unsigned value) {
    unsigned before = __atomic_load_n(at, __ATOMIC_SEQ_CST);
    while (before < value &&
           !__atomic_compare_exchange_n(at, &before, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    }
    return before;
}

inline void fiber_main() {
    Block& b = *block_here;
    b.body();
    b.done[b.current] = 1;
    swapcontext(&b.fibers[b.current], &b.scheduler);
}

inline void run_block(unsigned number, unsigned grid, unsigned size, const std::function<void()>& body) {
    Block b;
    b.size = b.running = size;
    b.fibers.resize(size);
    b.done.assign(size, 0);
    b.warps.resize((size + 31) / 32);
    b.body = body;
    block_here = &b;
    blockIdx.x = number, gridDim.x = grid, blockDim.x = size;
    char* stacks = static_cast<char*>(
        mmap(nullptr, size * Block::STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (unsigned t = 0; t < size; ++t) {
        ++b.warps[t / 32].total;
        getcontext(&b.fibers[t]);
        b.fibers[t].uc_stack.ss_sp = stacks + t * Block::STACK;
        b.fibers[t].uc_stack.ss_size = Block::STACK;
        b.fibers[t].uc_link = nullptr;
        makecontext(&b.fibers[t], fiber_main, 0);
    }
    for (unsigned left = size; left;) {
        for (unsigned t = 0; t < size; ++t) {
            if (b.done[t]) continue;
            threadIdx.x = b.current = t;
            swapcontext(&b.scheduler, &b.fibers[t]);
            if (b.done[t]) {
                --left;
                if (--b.running && b.waiting == b.running) b.waiting = 0, ++b.generation;
            }
        }
    }
    munmap(stacks, size * Block::STACK);
}

// Every block at once: a grid that waits for all of its blocks must be resident as a whole.
inline void run_grid(unsigned grid, unsigned size, const std::function<void()>& body) {
    std::vector<std::thread> blocks;
    for (unsigned n = 1; n < grid; ++n) blocks.emplace_back(run_block, n, grid, size, body);
    run_block(0, grid, size, body);
    for (auto& each : blocks) each.join();
}
