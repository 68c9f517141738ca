// c = a @ weight^T on Hopper and later, in two regimes.
//
// For a few tokens the product is a stream over the weights (stream.cuh). Above, tiles of c are computed by the tensor
// cores from shared memory: by warpgroups where the device has them (warpgroup.cuh), else by warps (tiles.cuh). Where
// there are too few tiles for the device, a cluster of blocks shares one by splitting k.

#include "problem.h"

#include "stream.cuh"
#include "tiles.cuh"
#include "warpgroup.cuh"

#define STREAM_UP_TO 8 // tune: 0 1 8 16

extern "C" int kernel_launch(const __nv_bfloat16* a, const __nv_bfloat16* weight, __nv_bfloat16* c, int64_t m, int64_t n,
                             int64_t k, cudaStream_t stream) {
    if (m == 0 || n == 0) return 0;
    if (k == 0 || k % 64 != 0 || n % 8 != 0) return static_cast<int>(cudaErrorInvalidValue);
    const Product product{a, weight, c, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k)};
    if (warpgroups_available() && m > STREAM_UP_TO) return static_cast<int>(launch_warpgroups(product, stream));
    return static_cast<int>(m <= 16 ? launch_stream(product, stream) : launch_tiles(product, stream));
}
