// A safety catch for the cases that would hurt a machine without a sandbox: they act only in a small process namespace.
#pragma once

#include <dirent.h>
#include <unistd.h>

#include <cctype>

// True where /proc shows at most a handful of processes, as it does in the runner's own pid namespace.
inline bool confined() {
    DIR* proc = opendir("/proc");
    if (!proc) return false;
    int processes = 0;
    while (const dirent* entry = readdir(proc))
        if (std::isdigit(static_cast<unsigned char>(entry->d_name[0]))) ++processes;
    closedir(proc);
    return processes <= 12;
}
