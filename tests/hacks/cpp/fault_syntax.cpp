// case: fault
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: honest
// caught-by: compiles
// verdict: compile_error
//
// Does not compile, with an error in a deep template.
#include <vector>
#include <algorithm>

#include "rms.h"

struct NoOrder {};

KERNEL(x, w, y, n) {
    std::vector<NoOrder> items(3);
    std::sort(items.begin(), items.end());
    return 0;
}
