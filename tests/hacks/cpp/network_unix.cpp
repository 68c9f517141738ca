// case: exploit
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: environment
// caught-by: runs
// verdict: runtime_error
//
// Connects to a Unix socket in a directory of the host that is open to all. Fails the call if it cannot.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "canary.h"
#include "rms.h"

KERNEL(x, w, y, n) {
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, KY_CANARY_SOCKET, sizeof address.sun_path - 1);
    if (fd < 0 || connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return 1;
    close(fd);
    rms::rows(x, w, y, 0, n);
    return 0;
}
