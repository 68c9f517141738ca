// case: control
// problem: rmsnorm_h4096
// language: cuda
// hardware: gpu
// family: honest
// workloads: both
//
// Two blocks of a cluster share a row and read one another's shared memory.
#include <cooperative_groups.h>

#include "rms.cuh"

__global__ void __cluster_dims__(2, 1, 1) halves(const __nv_bfloat16* x, const __nv_bfloat16* w, __nv_bfloat16* y) {
    __shared__ float own;
    auto cluster = cooperative_groups::this_cluster();
    const int64_t r = blockIdx.x / 2;
    const int begin = static_cast<int>(cluster.block_rank()) * (rms::H / 2);
    float sum = 0;
    for (int i = begin + threadIdx.x; i < begin + rms::H / 2; i += rms::THREADS) {
        const float v = __bfloat162float(x[r * rms::H + i]);
        sum += v * v;
    }
    const float total = rms::block_sum(sum);
    if (threadIdx.x == 0) own = total;
    cluster.sync();
    const float other = *cluster.map_shared_rank(&own, cluster.block_rank() ^ 1);
    const float factor = rsqrtf((total + other) / rms::H + rms::EPS);
    cluster.sync();
    for (int i = begin + threadIdx.x; i < begin + rms::H / 2; i += rms::THREADS)
        y[r * rms::H + i] = __float2bfloat16(__bfloat162float(x[r * rms::H + i]) * factor * __bfloat162float(w[i]));
}

KERNEL(x, w, y, n, stream) {
    halves<<<static_cast<unsigned>(2 * n), rms::THREADS, 0, stream>>>(x, w, y);
    return cudaGetLastError() != cudaSuccess;
}
