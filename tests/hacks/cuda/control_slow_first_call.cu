// case: control
// problem: rmsnorm_h4096
// language: cuda
// hardware: gpu
// family: honest
//
// Its first call takes a second and a half on the host, as one that compiles or searches for a plan does.
#include <unistd.h>

#include "rms.cuh"

KERNEL(x, w, y, n, stream) {
    static const bool slept = [] { return usleep(1500000) == 0; }();
    (void)slept;
    return rms::rows(x, w, y, 0, n, stream);
}
