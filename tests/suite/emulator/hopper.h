// The part of the emulator that stands for Hopper's own instructions: memory barriers in shared memory, the bulk tensor
// copy engine, and warpgroup products. Copies and products happen at once, so a wait that is missing goes unseen.

#pragma once

#define WARPGROUP_LANES 128

struct SharedBarrier {
    uint8_t expected, pending, phase, unused;
    int32_t bytes;

    void settle() {
        if (pending == 0 && bytes == 0) {
            phase ^= 1;
            pending = expected;
        }
    }
};
static_assert(sizeof(SharedBarrier) == 8);

inline SharedBarrier& shared_barrier(uint32_t address) {
    assert(address % 8 == 0);
    return *static_cast<SharedBarrier*>(shared_pointer(address));
}
inline void barrier_init(uint32_t barrier, int arrivals) {
    const uint8_t count = static_cast<uint8_t>(arrivals);
    shared_barrier(barrier) = {count, count, 0, 0, 0};
}
inline void barrier_fence() {}
inline void barrier_arrive(uint32_t barrier) {
    SharedBarrier& b = shared_barrier(barrier);
    assert(b.pending > 0);
    --b.pending;
    b.settle();
}
inline void barrier_expect(uint32_t barrier, int bytes) {
    SharedBarrier& b = shared_barrier(barrier);
    assert(b.pending > 0);
    b.bytes += bytes;
    --b.pending;
    b.settle();
}
inline void barrier_wait(uint32_t barrier, uint32_t parity) {
    while (shared_barrier(barrier).phase == parity) emulator::yield();
}

inline uint32_t swizzled(uint32_t address) { return address ^ ((address >> 7 & 7) << 4); }

typedef uint64_t cuuint64_t;
typedef uint32_t cuuint32_t;
struct CUtensorMap {
    const char* matrix;
    cuuint64_t columns, rows, stride;
    cuuint32_t box_columns, box_rows;
};

inline void copy_box(uint32_t to, const CUtensorMap* map, int column, int row, uint32_t barrier) {
    assert(to % 1024 == 0);
    for (cuuint32_t r = 0; r < map->box_rows; ++r) {
        for (cuuint32_t chunk = 0; chunk < map->box_columns / 8; ++chunk) {
            void* here = shared_pointer(swizzled(to + r * 128 + chunk * 16));
            const cuuint64_t from_row = row + r, from_column = column + chunk * 8;
            if (from_row < map->rows && from_column < map->columns) {
                memcpy(here, map->matrix + from_row * map->stride + from_column * 2, 16);
            } else {
                memset(here, 0, 16);
            }
        }
    }
    SharedBarrier& b = shared_barrier(barrier);
    b.bytes -= static_cast<int32_t>(map->box_rows * map->box_columns * 2);
    b.settle();
}
inline void copy_box_once(uint32_t to, const CUtensorMap* map, int column, int row, uint32_t barrier) {
    copy_box(to, map, column, row, barrier);
}

inline void warpgroup_fence() {}
inline void warpgroup_commit() {}
template <int PENDING> void warpgroup_wait() {}
template <int COUNT> void fewer_registers() {}
template <int COUNT> void more_registers() {}
inline void __syncwarp() {}
inline void meet(int barrier, int threads) { emulator::meet_named(barrier, threads); }
inline void cluster_meet() { cooperative_groups::this_cluster().sync(); }
inline void* __cvta_shared_to_generic(size_t address) { return shared_pointer(static_cast<uint32_t>(address)); }

// d += features * tokens^T, as the kernels' warpgroup_products.cuh says: this thread's own elements only.
template <int N>
void multiply_warpgroup(float (&d)[N], uint64_t features, uint64_t tokens) {
    const unsigned thread = emulator::self().linear % WARPGROUP_LANES, lane = thread % 32;
    auto row_values = [](uint64_t descriptor, unsigned row, float (&values)[16]) {
        assert(descriptor >> 62 == 1);  // swizzled over 128 bytes
        const uint32_t start = (descriptor & 0x3fff) << 4, eight_rows = (descriptor >> 32 & 0x3fff) << 4;
        for (unsigned k = 0; k < 16; ++k) {
            const uint32_t at = swizzled(start + row / 8 * eight_rows + row % 8 * 128 + k * 2);
            uint16_t bits;
            memcpy(&bits, shared_pointer(at), 2);
            values[k] = __uint_as_float(static_cast<uint32_t>(bits) << 16);
        }
    };
    float own[2][16], other[16];
    for (unsigned half = 0; half < 2; ++half) row_values(features, thread / 32 * 16 + half * 8 + lane / 4, own[half]);
    for (unsigned j = 0; j < N / 4; ++j) {
        for (unsigned odd = 0; odd < 2; ++odd) {
            row_values(tokens, j * 8 + lane % 4 * 2 + odd, other);
            for (unsigned half = 0; half < 2; ++half) {
                for (unsigned k = 0; k < 16; ++k) d[j * 4 + half * 2 + odd] += own[half][k] * other[k];
            }
        }
    }
}

inline void store_transposed(uint32_t address, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3) {
    emulator::Operands own = {};
    const uint32_t words[5] = {address, r0, r1, r2, r3};
    memcpy(own.words, words, sizeof words);
    const emulator::Operands* lanes = emulator::meet_warp(own);
    const unsigned lane = emulator::lane();
    for (unsigned matrix = 0; matrix < 4; ++matrix) {
        for (unsigned odd = 0; odd < 2; ++odd) {
            const uint32_t row = lanes[matrix * 8 + lane % 4 * 2 + odd].words[0];
            const uint16_t bits = static_cast<uint16_t>(own.words[1 + matrix] >> (odd * 16));
            memcpy(shared_pointer(row + lane / 4 * 2), &bits, 2);
        }
    }
}

// Host side.
enum CUresult { CUDA_SUCCESS = 0 };
enum { CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
       CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE };
inline CUresult cuTensorMapEncodeTiled(CUtensorMap* map, int, cuuint32_t, void* matrix, const cuuint64_t* sizes,
                                       const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t*, int, int, int,
                                       int) {
    assert(reinterpret_cast<uintptr_t>(matrix) % 16 == 0 && strides[0] % 16 == 0 && box[0] * 2 == 128 && box[1] <= 256);
    *map = {static_cast<const char*>(matrix), sizes[0], sizes[1], strides[0], box[0], box[1]};
    return CUDA_SUCCESS;
}
enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess, cudaDriverEntryPointSymbolNotFound };
enum { cudaEnableDefault };
inline cudaError_t cudaGetDriverEntryPointByVersion(const char*, void** entry, int, int,
                                                    cudaDriverEntryPointQueryResult* status) {
    *entry = reinterpret_cast<void*>(&cuTensorMapEncodeTiled);
    *status = cudaDriverEntryPointSuccess;
    return cudaSuccess;
}
