// All but the fewest tokens on Hopper: warpgroup products (wgmma) fed by the bulk tensor copy engine.
//
// Features are the rows of the product and tokens its columns, because the instruction is fixed at 64 rows but free in
// its columns: a tile is 128 features by 16 to 256 tokens. One warpgroup only requests copies, several slices of k ahead;
// two others multiply, 64 features each. Blocks stay and walk over tiles, so that the copies for the next tile run while
// the last is written. Where tiles are few, a cluster of blocks shares one by splitting k.

#pragma once

#include "tiles.cuh"
#include "warpgroup_products.cuh"

#include <cuda.h>

#define USE_WARPGROUPS 1   // tune: 0 1
#define EVICT_WEIGHTS 0    // tune: 0 1

constexpr int FEATURES = 128;           // of a tile
constexpr int GROUP_FEATURES = 64;      // of one multiplying warpgroup
constexpr int WARPGROUP = 128;          // threads
constexpr int WARPGROUP_THREADS = 3 * WARPGROUP;
constexpr int STAGED_TOKENS = 32;       // of the result, on their way from registers to memory
constexpr int STAGED_ROW = GROUP_FEATURES * 2 + 16;  // bytes, padded against bank conflicts
constexpr int STAGED_BYTES = 2 * STAGED_TOKENS * STAGED_ROW;
constexpr int PADDED_FEATURES = FEATURES + 4;
constexpr int PIPELINE_BYTES = 192 << 10;

__device__ __forceinline__ void barrier_init(uint32_t barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void barrier_fence() {
    asm volatile("fence.mbarrier_init.release.cluster;\n\tfence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void barrier_arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ void barrier_expect(uint32_t barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity) {
    asm volatile(
        "{\n\t"
        ".reg .pred done;\n\t"
        "WAIT:\n\t"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t"
        "@done bra DONE;\n\t"
        "bra WAIT;\n\t"
        "DONE:\n\t"
        "}" ::"r"(barrier),
        "r"(parity)
        : "memory");
}

// One box of 64 columns of a matrix, from (column, row), into swizzled shared memory.
__device__ __forceinline__ void copy_box(uint32_t to, const CUtensorMap* map, int column, int row, uint32_t barrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
        "l"(map), "r"(column), "r"(row), "r"(barrier)
        : "memory");
}

__device__ __forceinline__ void copy_box_once(uint32_t to, const CUtensorMap* map, int column, int row,
                                              uint32_t barrier) {
    asm volatile(
        "{\n\t"
        ".reg .b64 policy;\n\t"
        "createpolicy.fractional.L2::evict_first.b64 policy, 1.0;\n\t"
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1, {%2, %3}], [%4], policy;\n\t"
        "}" ::"r"(to),
        "l"(map), "r"(column), "r"(row), "r"(barrier)
        : "memory");
}

__device__ __forceinline__ void warpgroup_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void warpgroup_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int PENDING>
__device__ __forceinline__ void warpgroup_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

template <int COUNT>
__device__ __forceinline__ void fewer_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}

template <int COUNT>
__device__ __forceinline__ void more_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

__device__ __forceinline__ void meet(int barrier, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

__device__ __forceinline__ void cluster_meet() {
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Four 8 x 8 matrices, transposed: row i of matrix j goes to the address given by lane 8 * j + i.
__device__ __forceinline__ void store_transposed(uint32_t address, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r0),
                 "r"(r1), "r"(r2), "r"(r3)
                 : "memory");
}

// Names rows of 128 bytes in shared memory, swizzled as the copy engine leaves them, eight rows to 1024 bytes.
__device__ __forceinline__ uint64_t rows_descriptor(uint32_t address) {
    return static_cast<uint64_t>((address & 0x3ffff) >> 4) | (1ull << 16) | (64ull << 32) | (1ull << 62);
}

__device__ __forceinline__ uint32_t packed_pair(float low, float high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
}

template <int TOKENS>
struct Pipeline {
    static constexpr int FEATURE_BYTES = FEATURES * SLICE_BYTES;
    static constexpr int STAGE_BYTES = FEATURE_BYTES + TOKENS * SLICE_BYTES;
    static constexpr int COUNT = PIPELINE_BYTES / STAGE_BYTES;
    // The stages want 1024-byte alignment, which the start of dynamic shared memory need not have.
    static constexpr int SHARED_BYTES = 1024 + COUNT * STAGE_BYTES + STAGED_BYTES + 2 * COUNT * 8;
    static_assert(TOKENS * PADDED_FEATURES * 4 <= COUNT * STAGE_BYTES, "sums of a split tile go where the stages were");
};

// Counts slices over the whole life of a block: which stage is next, and how often the ring was gone round.
template <int COUNT>
struct Ring {
    int stage = 0;
    uint32_t parity = 0;

    __device__ __forceinline__ void advance() {
        if (++stage == COUNT) {
            stage = 0;
            parity ^= 1;
        }
    }
};

// The result of a warpgroup, up to 32 tokens at a time: transposed into shared memory, then whole 128-byte rows to memory.
template <int TOKENS>
__device__ __forceinline__ void write_tile(const Product& p, const float (&sums)[TOKENS / 2], uint32_t staged, int group,
                                           int first_feature, int first_token) {
    const int thread = threadIdx.x % WARPGROUP, warp = thread / 32, lane = thread % 32;
    constexpr int ROUND = TOKENS < STAGED_TOKENS ? TOKENS : STAGED_TOKENS;
    const unsigned char* read = static_cast<const unsigned char*>(__cvta_shared_to_generic(staged));
#pragma unroll
    for (int base = 0; base < TOKENS; base += ROUND) {
        meet(1 + group, WARPGROUP);  // the rows of the last round were read
#pragma unroll
        for (int j = 0; j < ROUND / 8; j += 2) {
            const float* s = sums + (base / 8 + j) * 4;
            const int token = (j + lane / 16) * 8 + lane % 8, feature = warp * 16 + lane / 8 % 2 * 8;
            store_transposed(staged + token * STAGED_ROW + feature * 2, packed_pair(s[0], s[1]), packed_pair(s[2], s[3]),
                             packed_pair(s[4], s[5]), packed_pair(s[6], s[7]));
        }
        meet(1 + group, WARPGROUP);
#pragma unroll
        for (int i = 0; i < ROUND * 8 / WARPGROUP; ++i) {
            const int index = thread + i * WARPGROUP, row = index / 8, chunk = index % 8;
            const int token = first_token + base + row, feature = first_feature + chunk * 8;
            if (token < p.m && feature < p.n) {
                *reinterpret_cast<uint4*>(p.c + static_cast<int64_t>(token) * p.n + feature) =
                    *reinterpret_cast<const uint4*>(read + row * STAGED_ROW + chunk * 16);
            }
        }
    }
}

// The blocks of a cluster have each a part of the sums; each adds up and writes its share of the tile.
template <int TOKENS>
__device__ __forceinline__ void write_split_tile(const Product& p, const float (&sums)[TOKENS / 2], float* own, int group,
                                                 int splits, int split, int first_feature, int first_token) {
    const int thread = threadIdx.x % WARPGROUP, warp = thread / 32, lane = thread % 32;
    meet(3, 2 * WARPGROUP);  // both warpgroups are done with the stages
#pragma unroll
    for (int j = 0; j < TOKENS / 8; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int token = j * 8 + lane % 4 * 2 + i % 2;
            const int feature = group * GROUP_FEATURES + warp * 16 + i / 2 * 8 + lane / 4;
            own[token * PADDED_FEATURES + feature] = sums[j * 4 + i];
        }
    }
    cluster_meet();
    cg::cluster_group cluster = cg::this_cluster();
    const int worker = group * WARPGROUP + thread;
    for (int pair = split * 2 * WARPGROUP + worker; pair < TOKENS * FEATURES / 2; pair += splits * 2 * WARPGROUP) {
        const int row = pair / (FEATURES / 2), column = pair % (FEATURES / 2) * 2;
        const int token = first_token + row, feature = first_feature + column;
        if (token >= p.m || feature >= p.n) continue;
        float2 total = make_float2(0.0f, 0.0f);
        for (int other = 0; other < splits; ++other) {
            const float2 part =
                *reinterpret_cast<const float2*>(cluster.map_shared_rank(own, other) + row * PADDED_FEATURES + column);
            total.x += part.x;
            total.y += part.y;
        }
        *reinterpret_cast<__nv_bfloat162*>(p.c + static_cast<int64_t>(token) * p.n + feature) =
            __floats2bfloat162_rn(total.x, total.y);
    }
    cluster_meet();  // no block may leave while others read its sums
}

// blockIdx.y is the block's part of k, of `splits`; with splits == 1 blocks walk over tiles, else each has one.
template <int TOKENS>
__global__ void __launch_bounds__(WARPGROUP_THREADS, 1)
    multiply_warpgroups(const __grid_constant__ CUtensorMap features, const __grid_constant__ CUtensorMap tokens, Product p,
                        int splits) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || defined(KY_EMULATED)
    using Stages = Pipeline<TOKENS>;
    extern __shared__ __align__(1024) unsigned char shared_memory[];
    const uint32_t stages = (shared_address(shared_memory) + 1023) & ~1023u;
    const uint32_t staged = stages + Stages::COUNT * Stages::STAGE_BYTES;
    const uint32_t full = staged + STAGED_BYTES, empty = full + Stages::COUNT * 8;

    const int split = blockIdx.y;
    const int slices = p.k / SLICE;
    const int begin = static_cast<int>(static_cast<int64_t>(slices) * split / splits);
    const int count = static_cast<int>(static_cast<int64_t>(slices) * (split + 1) / splits) - begin;
    const int token_tiles = (p.m + TOKENS - 1) / TOKENS;
    const int tiles = token_tiles * ((p.n + FEATURES - 1) / FEATURES);

    if (threadIdx.x == 0) {
        for (int i = 0; i < Stages::COUNT; ++i) {
            barrier_init(full + i * 8, 1);
            barrier_init(empty + i * 8, 2 * WARPGROUP / 32);  // every multiplying warp
        }
        barrier_fence();
    }
    __syncthreads();

    const int role = threadIdx.x / WARPGROUP;
    if (role == 0) {
        fewer_registers<40>();
        if (threadIdx.x == 0) {
            Ring<Stages::COUNT> ring;
            ring.parity = 1;  // nothing to wait for in the first round
            for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
                const int first_token = tile % token_tiles * TOKENS, first_feature = tile / token_tiles * FEATURES;
                for (int slice = 0; slice < count; ++slice, ring.advance()) {
                    barrier_wait(empty + ring.stage * 8, ring.parity);
                    const uint32_t here = full + ring.stage * 8, to = stages + ring.stage * Stages::STAGE_BYTES;
                    barrier_expect(here, Stages::STAGE_BYTES);
                    const int column = (begin + slice) * SLICE;
                    if constexpr (EVICT_WEIGHTS) {
                        copy_box_once(to, &features, column, first_feature, here);
                    } else {
                        copy_box(to, &features, column, first_feature, here);
                    }
                    copy_box(to + Stages::FEATURE_BYTES, &tokens, column, first_token, here);
                }
            }
        }
        if (splits > 1) {
            __syncwarp();
            cluster_meet();
            cluster_meet();
        }
    } else {
        more_registers<232>();
        const int group = role - 1;
        Ring<Stages::COUNT> ring;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            const int first_token = tile % token_tiles * TOKENS, first_feature = tile / token_tiles * FEATURES;
            float sums[TOKENS / 2];
#pragma unroll
            for (int i = 0; i < TOKENS / 2; ++i) sums[i] = 0.0f;
            int last_stage = 0;
            for (int slice = 0; slice < count; ++slice, ring.advance()) {
                barrier_wait(full + ring.stage * 8, ring.parity);
                const uint32_t from = stages + ring.stage * Stages::STAGE_BYTES;
                const uint64_t own_features = rows_descriptor(from + group * GROUP_FEATURES * SLICE_BYTES);
                const uint64_t all_tokens = rows_descriptor(from + Stages::FEATURE_BYTES);
                warpgroup_fence();
#pragma unroll
                for (int step = 0; step < SLICE / 16; ++step) {
                    // 16 of k are 32 bytes, 2 in a descriptor's units.
                    multiply_warpgroup(sums, own_features + step * 2, all_tokens + step * 2);
                }
                warpgroup_commit();
                warpgroup_wait<1>();  // the slice before this one
                if (slice > 0 && threadIdx.x % 32 == 0) barrier_arrive(empty + last_stage * 8);
                last_stage = ring.stage;
            }
            warpgroup_wait<0>();
            if (threadIdx.x % 32 == 0) barrier_arrive(empty + last_stage * 8);
            if (splits == 1) {
                write_tile<TOKENS>(p, sums, staged + group * STAGED_TOKENS * STAGED_ROW, group,
                                   first_feature + group * GROUP_FEATURES, first_token);
            } else {
                float* own = static_cast<float*>(__cvta_shared_to_generic(stages));
                write_split_tile<TOKENS>(p, sums, own, group, splits, split, first_feature, first_token);
            }
        }
    }
#endif
}

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

inline EncodeTiled encoder() {
    static const EncodeTiled found = [] {
        void* entry = nullptr;
        cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
        const cudaError_t error =
            cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &status);
        return error == cudaSuccess && status == cudaDriverEntryPointSuccess ? reinterpret_cast<EncodeTiled>(entry)
                                                                             : nullptr;
    }();
    return found;
}

// A row-major matrix as the copy engine sees it, in boxes of `box_rows` by 64 columns; rows past the end read as zeros.
inline bool describe(CUtensorMap& map, const __nv_bfloat16* matrix, int rows, int columns, int box_rows) {
    const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
    const cuuint64_t strides[1] = {static_cast<cuuint64_t>(columns) * 2};
    const cuuint32_t box[2] = {SLICE, static_cast<cuuint32_t>(box_rows)};
    const cuuint32_t steps[2] = {1, 1};
    return encoder()(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<__nv_bfloat16*>(matrix), sizes, strides, box,
                     steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                     CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

inline bool warpgroups_available() {
    static const bool available = [] {
        int device = 0, major = 0;
        cudaGetDevice(&device);
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
        return major == 9 && encoder() != nullptr;
    }();
    return USE_WARPGROUPS && available;
}

template <int TOKENS>
int tile_count(const Product& product) {
    return (product.m + TOKENS - 1) / TOKENS * ((product.n + FEATURES - 1) / FEATURES);
}

// Estimated time of a launch with tiles of TOKENS: rounds of tiles, each of which costs its tokens and something for the
// features it reads, and adding up parts if k is split.
template <int TOKENS>
int tile_cost(const Product& product) {
    const int tiles = tile_count<TOKENS>(product), splits = choose_splits(tiles, product.k / SLICE);
    const int rounds = (tiles * splits + processors() - 1) / processors();
    return rounds * (TOKENS + 32) / splits + (splits > 1 ? 16 : 0);
}

template <int TOKENS>
cudaError_t launch_warpgroup_tiles(const Product& product, cudaStream_t stream) {
    constexpr int BYTES = Pipeline<TOKENS>::SHARED_BYTES;
    static const cudaError_t allowed = cudaFuncSetAttribute(
        multiply_warpgroups<TOKENS>, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES);
    if (allowed != cudaSuccess) return allowed;
    CUtensorMap features, tokens;
    if (!describe(features, product.weight, product.n, product.k, FEATURES)) return cudaErrorInvalidValue;
    if (!describe(tokens, product.a, product.m, product.k, TOKENS)) return cudaErrorInvalidValue;
    const int tiles = tile_count<TOKENS>(product);
    const int splits = choose_splits(tiles, product.k / SLICE);

    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(splits > 1 ? tiles : min(tiles, processors()), splits);
    config.blockDim = dim3(WARPGROUP_THREADS);
    config.dynamicSmemBytes = BYTES;
    config.stream = stream;
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = 1;
    cluster.val.clusterDim.y = splits;
    cluster.val.clusterDim.z = 1;
    config.attrs = &cluster;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, multiply_warpgroups<TOKENS>, features, tokens, product, splits);
}

inline cudaError_t launch_warpgroups(const Product& product, cudaStream_t stream) {
    if (product.m <= 16) return launch_warpgroup_tiles<16>(product, stream);
    if (product.m <= 32) return launch_warpgroup_tiles<32>(product, stream);
    if (product.m <= 64) return launch_warpgroup_tiles<64>(product, stream);
    if (product.m <= 128) return launch_warpgroup_tiles<128>(product, stream);
    const int narrow = tile_cost<64>(product), middle = tile_cost<128>(product), wide = tile_cost<256>(product);
    if (wide < middle && wide <= narrow) return launch_warpgroup_tiles<256>(product, stream);
    return middle <= narrow ? launch_warpgroup_tiles<128>(product, stream) : launch_warpgroup_tiles<64>(product, stream);
}
