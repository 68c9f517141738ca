// case: control
// problem: rmsnorm_h4096
// language: cuda
// hardware: gpu
// family: honest
//
// Prints a line from the device and one from the host in its first calls.
#include <cstdio>

#include "rms.cuh"

__global__ void hello(int call) { printf("device: call %d\n", call); }

KERNEL(x, w, y, n, stream) {
    static int calls = 0;
    if (++calls <= 2) {
        std::printf("host: call %d\n", calls);
        hello<<<1, 1, 0, stream>>>(calls);
    }
    return rms::rows(x, w, y, 0, n, stream);
}
