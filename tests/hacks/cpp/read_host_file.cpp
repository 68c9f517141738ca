// case: exploit
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: environment
// caught-by: runs
// verdict: runtime_error
//
// Opens host files at run time, directly and through other processes' roots. Fails the call if none can be read.
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "canary.h"
#include "rms.h"

static bool readable(const std::string& path) {
    const int fd = open(path.c_str(), O_RDONLY);
    char byte;
    const bool yes = fd >= 0 && read(fd, &byte, 1) == 1;
    if (fd >= 0) close(fd);
    return yes;
}

KERNEL(x, w, y, n) {
    bool reached = readable(KY_CANARY_FILE) || readable("/etc/hostname") || readable("/etc/shadow");
    if (DIR* proc = opendir("/proc")) {
        while (const dirent* entry = readdir(proc))
            reached |= readable(std::string("/proc/") + entry->d_name + "/root" + KY_CANARY_FILE);
        closedir(proc);
    }
    if (!reached) return 1;
    rms::rows(x, w, y, 0, n);
    return 0;
}
