// case: control
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: honest
// workloads: both
//
// Loads the toolchain's own libraries when it is first called, and asks the system about itself.
#include <dlfcn.h>

#include <fstream>
#include <locale>
#include <string>

#include "rms.h"

KERNEL(x, w, y, n) {
    static const auto root = reinterpret_cast<double (*)(double)>(dlsym(dlopen("libm.so.6", RTLD_NOW), "sqrt"));
    static void* vectors = dlopen("libmvec.so.1", RTLD_NOW);
    static const bool counted = [] {
        std::ifstream file("/proc/cpuinfo");
        std::string line;
        while (std::getline(file, line) && !line.starts_with("model name")) {}
        return !line.empty() || std::locale().name().empty();
    }();
    if (!root || root(4.0) != 2.0 || (vectors && !counted)) return 1;
    rms::rows(x, w, y, 0, n);
    return 0;
}
