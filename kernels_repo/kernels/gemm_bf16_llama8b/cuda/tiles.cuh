// More than 16 tokens: tiles of c through shared memory. Slices of both operands, 64 of k each, arrive by asynchronous
// copies several stages ahead; a slice's rows are 128 bytes whose 16-byte pieces are permuted by the row's number, so
// that neither the copies nor the matrix loads meet in a bank. A cluster of `splits` blocks may share one tile, each
// taking a part of k; its sums are then added across the cluster's shared memory.

#pragma once

#include "product.cuh"

#include <cooperative_groups.h>

#define STAGES 3           // tune: 2 3 4
#define TILE_ROWS_LARGE 128 // tune: 64 128

namespace cg = cooperative_groups;

constexpr int TILE_THREADS = 256;
constexpr int TILE_COLUMNS = 128;
constexpr int SLICE = 64;          // of k, in elements
constexpr int SLICE_BYTES = 128;   // of one row
constexpr int PADDED_COLUMNS = TILE_COLUMNS + 4;
constexpr int MAX_SPLITS = 8;

// Four 8 x 8 matrices; lane i gives the address of row i % 8 of matrix i / 8.
__device__ __forceinline__ void load_matrices(uint32_t (&r)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

// Byte offset of a 16-byte piece in a slice.
__device__ __forceinline__ uint32_t piece(int row, int chunk) {
    return static_cast<uint32_t>(row * SLICE_BYTES + ((chunk ^ (row & 7)) * 16));
}

template <int ROWS>
constexpr int tile_shared_bytes() {
    const int slices = STAGES * (ROWS + TILE_COLUMNS) * SLICE_BYTES;
    const int sums = ROWS * PADDED_COLUMNS * 4;
    return slices > sums ? slices : sums;
}

// ROWS tokens by TILE_COLUMNS features; the eight warps form a grid of WARP_ROWS by 8 / WARP_ROWS.
template <int ROWS, int WARP_ROWS>
__global__ void __launch_bounds__(TILE_THREADS) multiply_tiles(Product p, int splits) {
    constexpr int WARP_COLUMNS = 8 / WARP_ROWS;
    constexpr int ROW_TILES = ROWS / WARP_ROWS / 16;
    constexpr int COLUMN_PAIRS = TILE_COLUMNS / WARP_COLUMNS / 16;  // two 8-column tiles come with one matrix load
    constexpr int STAGE_BYTES = (ROWS + TILE_COLUMNS) * SLICE_BYTES;
    constexpr int COPIES = (ROWS + TILE_COLUMNS) * 8 / TILE_THREADS;
    static_assert(ROW_TILES >= 1 && COLUMN_PAIRS >= 1 && (ROWS + TILE_COLUMNS) * 8 % TILE_THREADS == 0);
    extern __shared__ __align__(1024) unsigned char shared_memory[];

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warp_row = warp / WARP_COLUMNS * (ROWS / WARP_ROWS);
    const int warp_column = warp % WARP_COLUMNS * (TILE_COLUMNS / WARP_COLUMNS);
    const int first_row = blockIdx.x * ROWS, first_column = blockIdx.y * TILE_COLUMNS;

    // This block's part of k, in slices.
    const int slices = p.k / SLICE;
    const int split = blockIdx.z;
    const int begin = static_cast<int>(static_cast<int64_t>(slices) * split / splits);
    const int count = static_cast<int>(static_cast<int64_t>(slices) * (split + 1) / splits) - begin;

    const uint32_t base = shared_address(shared_memory);
    auto fetch = [&](int slice) {
        const uint32_t stage = base + slice % STAGES * STAGE_BYTES;
        const int64_t column = static_cast<int64_t>(begin + slice) * SLICE;
#pragma unroll
        for (int i = 0; i < COPIES; ++i) {
            const int index = static_cast<int>(threadIdx.x) + i * TILE_THREADS;
            const int row = index / 8, chunk = index % 8;
            const bool of_a = row < ROWS;  // rows of a, then rows of the weight
            const int global_row = of_a ? first_row + row : first_column + row - ROWS;
            const bool inside = global_row < (of_a ? p.m : p.n);
            const __nv_bfloat16* from = (of_a ? p.a : p.weight) + (inside ? global_row : 0) * static_cast<int64_t>(p.k);
            copy_async(stage + piece(row, chunk), from + column + chunk * 8, inside);
        }
    };

    float sums[ROW_TILES][COLUMN_PAIRS * 2][4] = {};
#pragma unroll
    for (int slice = 0; slice < STAGES - 1; ++slice) {
        if (slice < count) fetch(slice);
        commit_copies();
    }
    for (int slice = 0; slice < count; ++slice) {
        wait_copies<STAGES - 2>();
        __syncthreads();  // the slice is here for all, and all are done with the stage that is filled next
        if (slice + STAGES - 1 < count) fetch(slice + STAGES - 1);
        commit_copies();

        const uint32_t a_stage = base + slice % STAGES * STAGE_BYTES;
        const uint32_t w_stage = a_stage + ROWS * SLICE_BYTES;
#pragma unroll
        for (int step = 0; step < SLICE / 16; ++step) {
            uint32_t a[ROW_TILES][4], w[COLUMN_PAIRS][4];
#pragma unroll
            for (int i = 0; i < ROW_TILES; ++i) {
                load_matrices(a[i], a_stage + piece(warp_row + i * 16 + lane % 16, step * 2 + lane / 16));
            }
#pragma unroll
            for (int j = 0; j < COLUMN_PAIRS; ++j) {
                const int row = warp_column + j * 16 + lane / 16 * 8 + lane % 8;
                load_matrices(w[j], w_stage + piece(row, step * 2 + lane / 8 % 2));
            }
#pragma unroll
            for (int i = 0; i < ROW_TILES; ++i) {
#pragma unroll
                for (int j = 0; j < COLUMN_PAIRS * 2; ++j) {
                    multiply_add(sums[i][j], a[i][0], a[i][1], a[i][2], a[i][3], w[j / 2][j % 2 * 2],
                                 w[j / 2][j % 2 * 2 + 1]);
                }
            }
        }
    }

    const int group = lane / 4, within = lane % 4;
    if (splits == 1) {
#pragma unroll
        for (int i = 0; i < ROW_TILES; ++i) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int row = first_row + warp_row + i * 16 + half * 8 + group;
                if (row < p.m) {
#pragma unroll
                    for (int j = 0; j < COLUMN_PAIRS * 2; ++j) {
                        const int column = first_column + warp_column + j * 8 + within * 2;
                        if (column < p.n) {
                            *reinterpret_cast<__nv_bfloat162*>(p.c + static_cast<int64_t>(row) * p.n + column) =
                                __floats2bfloat162_rn(sums[i][j][half * 2], sums[i][j][half * 2 + 1]);
                        }
                    }
                }
            }
        }
        return;
    }

    wait_copies<0>();
    __syncthreads();  // the stages are free
    float* own = reinterpret_cast<float*>(shared_memory);
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int j = 0; j < COLUMN_PAIRS * 2; ++j) {
                const int at = (warp_row + i * 16 + half * 8 + group) * PADDED_COLUMNS + warp_column + j * 8 + within * 2;
                *reinterpret_cast<float2*>(own + at) = make_float2(sums[i][j][half * 2], sums[i][j][half * 2 + 1]);
            }
        }
    }
    cg::cluster_group cluster = cg::this_cluster();
    cluster.sync();
    // Each block of the cluster finishes every splits-th run of pairs.
    for (int pair = split * TILE_THREADS + static_cast<int>(threadIdx.x); pair < ROWS * TILE_COLUMNS / 2;
         pair += splits * TILE_THREADS) {
        const int tile_row = pair / (TILE_COLUMNS / 2), tile_column = pair % (TILE_COLUMNS / 2) * 2;
        float2 total = make_float2(0.0f, 0.0f);
        for (int other = 0; other < splits; ++other) {
            const float2 part = *reinterpret_cast<const float2*>(
                cluster.map_shared_rank(own, other) + tile_row * PADDED_COLUMNS + tile_column);
            total.x += part.x;
            total.y += part.y;
        }
        const int row = first_row + tile_row, column = first_column + tile_column;
        if (row < p.m && column < p.n) {
            *reinterpret_cast<__nv_bfloat162*>(p.c + static_cast<int64_t>(row) * p.n + column) =
                __floats2bfloat162_rn(total.x, total.y);
        }
    }
    cluster.sync();  // no block may leave while others read its sums
}

inline int processors() {
    static const int count = [] {
        int device = 0, value = 0;
        cudaGetDevice(&device);
        cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, device);
        return value > 0 ? value : 132;
    }();
    return count;
}

// How many blocks share a tile: as many as still fit the device at once, with at least eight slices each.
inline int choose_splits(int tiles, int slices) {
    int splits = 1;
    while (splits < MAX_SPLITS && tiles * splits * 2 <= processors() && slices >= splits * 2 * 8) splits *= 2;
    return splits;
}

template <int ROWS, int WARP_ROWS>
cudaError_t launch_tile_rows(const Product& product, cudaStream_t stream) {
    constexpr int BYTES = tile_shared_bytes<ROWS>();
    static const cudaError_t allowed = cudaFuncSetAttribute(
        multiply_tiles<ROWS, WARP_ROWS>, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES);
    if (allowed != cudaSuccess) return allowed;
    const int row_tiles = (product.m + ROWS - 1) / ROWS;
    const int column_tiles = (product.n + TILE_COLUMNS - 1) / TILE_COLUMNS;
    const int splits = choose_splits(row_tiles * column_tiles, product.k / SLICE);

    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(row_tiles, column_tiles, splits);  // neighbours in a wave share a strip of the weight
    config.blockDim = dim3(TILE_THREADS);
    config.dynamicSmemBytes = BYTES;
    config.stream = stream;
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = 1;
    cluster.val.clusterDim.y = 1;
    cluster.val.clusterDim.z = splits;
    config.attrs = &cluster;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, multiply_tiles<ROWS, WARP_ROWS>, product, splits);
}

inline cudaError_t launch_tiles(const Product& product, cudaStream_t stream) {
    if (product.m <= 32) return launch_tile_rows<32, 1>(product, stream);
    if (product.m <= 64) return launch_tile_rows<64, 2>(product, stream);
    // Large tiles once there are enough of them to fill the device.
    const int tiles = (product.m + TILE_ROWS_LARGE - 1) / TILE_ROWS_LARGE * ((product.n + 127) / 128);
    if (tiles < processors()) return launch_tile_rows<64, 2>(product, stream);
    return launch_tile_rows<TILE_ROWS_LARGE, 2>(product, stream);
}
