// Finds the sockets of the process it runs in, as a cheat would.
#pragma once

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

inline std::vector<int> open_sockets() {
    std::vector<int> found;
    for (int fd = 0; fd < 256; ++fd) {
        struct stat info;
        if (fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode)) found.push_back(fd);
    }
    return found;
}

// Sends text as one message on every socket; returns how many took it.
inline int send_everywhere(const std::string& text) {
    int sent = 0;
    for (int fd : open_sockets())
        if (send(fd, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(text.size())) ++sent;
    return sent;
}
