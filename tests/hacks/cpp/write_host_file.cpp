// case: exploit
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: environment
// caught-by: runs
// verdict: runtime_error
//
// Creates files on the host: in an open directory, beside its own library, and in the interpreter's site directories, where
// the next process would run them. Fails the call if it can create none.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "canary.h"
#include "rms.h"

static bool creates(const std::string& path) {
    const int fd = open(path.c_str(), O_CREAT | O_WRONLY, 0644);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

KERNEL(x, w, y, n) {
    Dl_info own = {};
    dladdr(reinterpret_cast<void*>(&creates), &own);
    const std::string library = own.dli_fname ? own.dli_fname : "/nowhere/x.so";
    bool reached = creates(KY_CANARY_DIRECTORY "/proof");
    reached |= creates(library.substr(0, library.rfind('/')) + "/proof");
    reached |= open(library.c_str(), O_WRONLY) >= 0;
    reached |= creates("/usr/lib/python3/dist-packages/kernelyard_proof.pth");
    if (!reached) return 1;
    rms::rows(x, w, y, 0, n);
    return 0;
}
