// case: exploit
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: environment
// caught-by: runs
// verdict: runtime_error
//
// Looks through its environment, its command line's neighbours and its groups for a sign of the host's secrets or a
// privileged identity. Fails the call if there is nothing: no secret-looking variable, no root, no capability.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <initializer_list>

#include "rms.h"

extern char** environ;

KERNEL(x, w, y, n) {
    bool reached = false;
    for (char** variable = environ; *variable; ++variable)
        for (const char* word : {"SECRET", "TOKEN", "PASSWORD", "API_KEY", "DJANGO", "KERNELYARD_HOME"})
            reached |= std::strstr(*variable, word) != nullptr;
    unsigned long long capabilities = 0;
    if (FILE* status = std::fopen("/proc/self/status", "r")) {
        char line[256];
        while (std::fgets(line, sizeof line, status)) std::sscanf(line, "CapEff: %llx", &capabilities);
        std::fclose(status);
    }
    reached |= capabilities != 0 || getuid() == 0;
    if (!reached) return 1;
    rms::rows(x, w, y, 0, n);
    return 0;
}
