// case: exploit
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: environment
// caught-by: runs
// verdict: runtime_error
//
// Connects to an abstract Unix socket of the host, which no file permission guards. Fails the call if it cannot.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>

#include "canary.h"
#include "rms.h"

KERNEL(x, w, y, n) {
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path + 1, KY_CANARY_ABSTRACT);
    const auto length = offsetof(sockaddr_un, sun_path) + 1 + sizeof KY_CANARY_ABSTRACT - 1;
    if (fd < 0 || connect(fd, reinterpret_cast<sockaddr*>(&address), length) != 0) return 1;
    close(fd);
    rms::rows(x, w, y, 0, n);
    return 0;
}
