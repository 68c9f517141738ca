// Enough of CUDA to run the suite's kernels on a CPU, one fiber per device thread, so that their index arithmetic can
// be checked where there is no GPU. Not for timing, and not a model of memory ordering: a missing barrier may go unseen.
//
// A block is one operating-system thread, whose thread-local storage is the block's shared memory; the blocks of a
// cluster run at once. A warp's collective operations and the block's barrier are meeting points of fibers.

#pragma once

#include <atomic>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <pthread.h>
#include <thread>
#include <ucontext.h>
#include <vector>

#define __global__ static
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __restrict__ __restrict
#define __align__(bytes) alignas(bytes)
#define __grid_constant__
#define KY_EMULATED
#define __shared__ static thread_local

struct uint4 { uint32_t x, y, z, w; } __attribute__((aligned(16)));
struct float2 { float x, y; } __attribute__((aligned(8)));
struct float4 { float x, y, z, w; } __attribute__((aligned(16)));
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }

struct __nv_bfloat16 { uint16_t bits; };
struct __nv_bfloat162 { __nv_bfloat16 x, y; };

using std::max;
using std::min;
inline float __uint_as_float(uint32_t bits) { float f; memcpy(&f, &bits, 4); return f; }
inline uint32_t __float_as_uint(float f) { uint32_t bits; memcpy(&bits, &f, 4); return bits; }
inline float __bfloat162float(__nv_bfloat16 b) { return __uint_as_float(static_cast<uint32_t>(b.bits) << 16); }
inline __nv_bfloat16 __float2bfloat16(float f) {
    const uint32_t bits = __float_as_uint(f);
    return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}
inline __nv_bfloat162 __floats2bfloat162_rn(float low, float high) {
    return {__float2bfloat16(low), __float2bfloat16(high)};
}
inline __nv_bfloat162 __hmax2(__nv_bfloat162 a, __nv_bfloat162 b) {
    return __floats2bfloat162_rn(fmaxf(__bfloat162float(a.x), __bfloat162float(b.x)),
                                 fmaxf(__bfloat162float(a.y), __bfloat162float(b.y)));
}
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline float __expf(float x) { return expf(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float exp2_fast(float x) { return exp2f(x); }

inline thread_local dim3 gridDim;

namespace emulator {

struct Operands {
    uint32_t words[16];
    float sums[4];
};

struct Warp {
    int arrived = 0;
    uint64_t generation = 0;
    Operands lanes[2][32];
};

struct Fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    dim3 thread;
    unsigned linear = 0;
    bool done = false;
};

struct Cluster {
    pthread_barrier_t barrier;
    std::vector<char*> markers;
};

struct Block {
    dim3 index, grid, size;
    unsigned rank = 0;
    Cluster* cluster = nullptr;
    std::vector<Fiber> fibers;
    std::vector<Warp> warps;
    unsigned current = 0, arrived = 0, finished = 0;
    uint64_t generation = 0;
    struct { int arrived = 0; uint64_t generation = 0; } named[16];
    ucontext_t scheduler;
    const std::function<void()>* body = nullptr;
};

inline thread_local Block* block = nullptr;
// A block's dynamic shared memory, and where all its shared memory is counted from. No block of the suite asks for more.
alignas(1024) inline thread_local char marker[228 << 10];

inline Fiber& self() { return block->fibers[block->current]; }
inline void yield() { swapcontext(&self().context, &block->scheduler); }

// Every thread of the block that is still there has to come; the last one runs `action`.
template <class Action>
void meet_block(Action action) {
    Block& b = *block;
    const uint64_t generation = b.generation;
    if (++b.arrived == b.fibers.size()) {
        action();
        b.arrived = 0;
        ++b.generation;
        return;
    }
    while (b.generation == generation) yield();
}

// A barrier for some of the block's threads.
inline void meet_named(int barrier, int threads) {
    auto& b = block->named[barrier];
    const uint64_t generation = b.generation;
    if (++b.arrived == threads) {
        b.arrived = 0;
        ++b.generation;
        return;
    }
    while (b.generation == generation) yield();
}

// Leaves this lane's operands, waits for the warp's others, and returns all 32.
inline Operands* meet_warp(const Operands& own) {
    const unsigned linear = self().linear;
    Warp& warp = block->warps[linear / 32];
    const uint64_t generation = warp.generation;
    Operands* lanes = warp.lanes[generation % 2];
    lanes[linear % 32] = own;
    const unsigned present = min<unsigned>(32, static_cast<unsigned>(block->fibers.size()) - linear / 32 * 32);
    if (++warp.arrived == static_cast<int>(present)) {
        warp.arrived = 0;
        ++warp.generation;
    } else {
        while (warp.generation == generation) yield();
    }
    return lanes;
}

inline unsigned lane() { return self().linear % 32; }

inline void enter() {
    (*block->body)();
    self().done = true;
    ++block->finished;
    yield();
}

inline void run_block(Block& b) {
    block = &b;
    gridDim = b.grid;
    const unsigned count = b.size.x * b.size.y * b.size.z;
    b.fibers.resize(count);
    b.warps.assign((count + 31) / 32, Warp());
    for (unsigned i = 0; i < count; ++i) {
        Fiber& fiber = b.fibers[i];
        fiber.linear = i;
        fiber.thread = dim3(i % b.size.x, i / b.size.x % b.size.y, i / b.size.x / b.size.y);
        constexpr size_t STACK = 96 << 10;
        fiber.stack.reset(new char[STACK]);
        getcontext(&fiber.context);
        fiber.context.uc_stack = {fiber.stack.get(), 0, STACK};
        fiber.context.uc_link = nullptr;
        makecontext(&fiber.context, enter, 0);
    }
    uint64_t rounds = 0;
    while (b.finished < count) {
        for (b.current = 0; b.current < count; ++b.current) {
            if (!b.fibers[b.current].done) swapcontext(&b.scheduler, &b.fibers[b.current].context);
        }
        // Threads that left while others wait for them would be waited for without end.
        if (++rounds > 100000000 || (b.finished > 0 && b.finished < count && b.arrived == count - b.finished)) {
            fprintf(stderr, "emulator: a block waits at a barrier that some of its threads never reach\n");
            abort();
        }
    }
    block = nullptr;
}

inline void launch(dim3 grid, dim3 size, dim3 shape, const std::function<void()>& body) {
    for (unsigned z = 0; z < grid.z; z += shape.z) {
        for (unsigned y = 0; y < grid.y; y += shape.y) {
            for (unsigned x = 0; x < grid.x; x += shape.x) {
                const unsigned count = shape.x * shape.y * shape.z;
                Cluster cluster;
                cluster.markers.resize(count);
                pthread_barrier_init(&cluster.barrier, nullptr, count);
                auto run = [&](unsigned rank) {
                    Block b;
                    b.index = dim3(x + rank % shape.x, y + rank / shape.x % shape.y, z + rank / shape.x / shape.y);
                    b.grid = grid;
                    b.size = size;
                    b.rank = rank;
                    b.cluster = &cluster;
                    b.body = &body;
                    cluster.markers[rank] = marker;
                    pthread_barrier_wait(&cluster.barrier);
                    run_block(b);
                    pthread_barrier_wait(&cluster.barrier);
                };
                std::vector<std::thread> threads;
                for (unsigned rank = 1; rank < count; ++rank) threads.emplace_back(run, rank);
                run(0);
                for (std::thread& thread : threads) thread.join();
                pthread_barrier_destroy(&cluster.barrier);
            }
        }
    }
}

}  // namespace emulator

#define threadIdx (emulator::self().thread)
#define blockIdx (emulator::block->index)

inline void __syncthreads() { emulator::meet_block([] {}); }
inline float __shfl_xor_sync(unsigned, float value, int mask) {
    emulator::Operands own = {};
    own.words[0] = __float_as_uint(value);
    return __uint_as_float(emulator::meet_warp(own)[emulator::lane() ^ mask].words[0]);
}
// Blocks are threads, some of which run at once.
inline float atomicAdd(float* to, float value) { return std::atomic_ref<float>(*to).fetch_add(value); }
template <class T> T __ldg(const T* from) { return *from; }
template <class T> T __ldcs(const T* from) { return *from; }
template <class T> void __stcs(T* to, T value) { *to = value; }
inline uint32_t __cvta_generic_to_shared(const void* p) {
    return static_cast<uint32_t>(static_cast<const char*>(p) - emulator::marker);
}

// The suite's names for single instructions; translate.py takes out their definitions in the kernels.
inline void* shared_pointer(uint32_t address) { return emulator::marker + static_cast<int32_t>(address); }

inline uint4 load_now(const uint4* from) { return *from; }
inline void copy_async(uint32_t to, const void* from, bool inside) {
    assert(to % 16 == 0 && reinterpret_cast<uintptr_t>(from) % 16 == 0);
    if (inside) memcpy(shared_pointer(to), from, 16);
    else memset(shared_pointer(to), 0, 16);
}
inline void commit_copies() {}
template <int PENDING> void wait_copies() {}

inline void load_matrices(uint32_t (&r)[4], uint32_t address) {
    emulator::Operands own = {};
    own.words[0] = address;
    const emulator::Operands* lanes = emulator::meet_warp(own);
    const unsigned lane = emulator::lane();
    for (int matrix = 0; matrix < 4; ++matrix) {
        const char* row = static_cast<const char*>(shared_pointer(lanes[matrix * 8 + lane / 4].words[0]));
        memcpy(&r[matrix], row + lane % 4 * 4, 4);
    }
}

inline void multiply_add(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
    emulator::Operands own = {};
    const uint32_t words[6] = {a0, a1, a2, a3, b0, b1};
    memcpy(own.words, words, sizeof words);
    const emulator::Operands* lanes = emulator::meet_warp(own);
    const unsigned g = emulator::lane() / 4, t = emulator::lane() % 4;
    auto half = [](uint32_t word, unsigned odd) { return __uint_as_float(odd ? word & 0xffff0000u : word << 16); };
    auto a = [&](unsigned row, unsigned k) {
        return half(lanes[row % 8 * 4 + k % 8 / 2].words[row / 8 + k / 8 * 2], k % 2);
    };
    auto b = [&](unsigned k, unsigned column) { return half(lanes[column * 4 + k % 8 / 2].words[4 + k / 8], k % 2); };
    for (unsigned i = 0; i < 4; ++i) {
        const unsigned row = g + i / 2 * 8, column = t * 2 + i % 2;
        for (unsigned k = 0; k < 16; ++k) d[i] += a(row, k) * b(k, column);
    }
}

namespace cooperative_groups {
struct cluster_group {
    void sync() {
        emulator::meet_block([] { pthread_barrier_wait(&emulator::block->cluster->barrier); });
    }
    template <class T> T* map_shared_rank(T* p, int rank) {
        char* own = emulator::marker;
        return reinterpret_cast<T*>(emulator::block->cluster->markers[rank] + (reinterpret_cast<char*>(p) - own));
    }
};
inline cluster_group this_cluster() { return {}; }
}  // namespace cooperative_groups

// Host side.
typedef void* cudaStream_t;
enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1 };
enum { cudaFuncAttributeMaxDynamicSharedMemorySize, cudaLaunchAttributeClusterDimension };
enum { cudaDevAttrMultiProcessorCount, cudaDevAttrComputeCapabilityMajor };
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline cudaError_t cudaGetDevice(int* device) { *device = 0; return cudaSuccess; }
inline cudaError_t cudaDeviceGetAttribute(int* value, int attribute, int) {
    if (attribute == cudaDevAttrComputeCapabilityMajor) {
        *value = 9;
        return cudaSuccess;
    }
    const char* set = getenv("EMULATED_PROCESSORS");
    *value = set ? atoi(set) : 132;
    return cudaSuccess;
}
template <class F> cudaError_t cudaFuncSetAttribute(F, int, int) { return cudaSuccess; }
struct cudaLaunchAttribute {
    int id;
    struct { dim3 clusterDim; } val;
};
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute* attrs;
    int numAttrs;
};
template <class... P, class... A>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(P...), A... arguments) {
    const dim3 shape = config->numAttrs ? config->attrs[0].val.clusterDim : dim3();
    emulator::launch(config->gridDim, config->blockDim, shape, [=] { kernel(P(arguments)...); });
    return cudaSuccess;
}

#include "hopper.h"
