// case: control
// problem: rmsnorm_h4096
// language: cuda
// hardware: gpu
// family: honest
//
// Ends with a host function on its stream that counts calls: work of the host inside the call, and waited for, so that
// it is timed by the wall clock.
#include "rms.cuh"

static long counted = 0;

KERNEL(x, w, y, n, stream) {
    const int status = rms::rows(x, w, y, 0, n, stream);
    return status | (cudaLaunchHostFunc(stream, [](void* count) { ++*static_cast<long*>(count); }, &counted) != cudaSuccess);
}
