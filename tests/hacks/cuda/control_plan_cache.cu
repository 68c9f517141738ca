// case: control
// problem: rmsnorm_h4096
// language: cuda
// hardware: gpu
// family: honest
// workloads: both
//
// Asks the driver for the best grid once per shape and remembers it.
#include <map>

#include "rms.cuh"

__global__ void strided(const __nv_bfloat16* x, const __nv_bfloat16* w, __nv_bfloat16* y, int64_t n) {
    for (int64_t r = blockIdx.x; r < n; r += gridDim.x) rms::row(x + r * rms::H, w, y + r * rms::H);
}

KERNEL(x, w, y, n, stream) {
    static std::map<int64_t, int> plans;
    int& blocks = plans[n];
    if (!blocks) {
        int device = 0, multiprocessors = 0, resident = 0;
        cudaGetDevice(&device);
        cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, strided, rms::THREADS, 0);
        const int64_t most = int64_t(multiprocessors) * (resident ? resident : 1);
        blocks = static_cast<int>(n < most ? n : most);
    }
    strided<<<blocks, rms::THREADS, 0, stream>>>(x, w, y, n);
    return cudaGetLastError() != cudaSuccess;
}
