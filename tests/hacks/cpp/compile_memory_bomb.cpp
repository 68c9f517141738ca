// case: exploit
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: compile
// caught-by: compiles|in-time
// verdict: compile_error|timeout
//
// A constant of sixty million parts, each a part of the next: the compiler takes all the memory there is before it gives
// up.
#include "rms.h"

template <int level>
struct node {
    node<level - 1> left, right;
    char own[level + 1];
};
template <>
struct node<0> {
    char own;
};
constexpr node<26> tree{};

KERNEL(x, w, y, n) {
    rms::rows(x, w, y, 0, n);
    return reinterpret_cast<const char*>(&tree)[n];
}
