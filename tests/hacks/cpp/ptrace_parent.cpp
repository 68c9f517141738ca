// case: exploit
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: process
// caught-by: runs
// verdict: runtime_error
//
// Tries to read the judge's memory through its parent processes (process_vm_readv, /proc/<pid>/mem, ptrace), where the
// reference output and the seed are. Fails the call if every door is shut.
#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "rms.h"

static int parent_of(int pid) {
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE* file = std::fopen(path, "r");
    int parent = 0;
    if (file) {
        if (std::fscanf(file, "%*d (%*[^)]) %*c %d", &parent) != 1) parent = 0;
        std::fclose(file);
    }
    return parent;
}

KERNEL(x, w, y, n) {
    for (int pid = getppid(); pid > 0; pid = parent_of(pid)) {
        char path[64];
        std::snprintf(path, sizeof path, "/proc/%d/mem", pid);
        const int fd = open(path, O_RDONLY);
        const bool attached = ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) == 0;
        if (attached) ptrace(PTRACE_DETACH, pid, nullptr, nullptr);
        // A Python judge maps its executable here; the init process of a sandbox holds no secret and does not count.
        std::snprintf(path, sizeof path, "/proc/%d/exe", pid);
        char target[256] = {};
        const bool python = readlink(path, target, sizeof target - 1) > 0 && std::strstr(target, "python");
        if (fd >= 0) close(fd);
        if (python && (fd >= 0 || attached)) {
            rms::rows(x, w, y, 0, n);
            return 0;
        }
    }
    return 1;
}
