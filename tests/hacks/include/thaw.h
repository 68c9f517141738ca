#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <cstdint>
#include <cstdio>
#include <cstring>
static int64_t now() { timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000ll + t.tv_nsec; }
static int slave_fd = -1, trigger_fd = -1;
static void send_fds(int through, const int* fds, int n) {
    char c = 0, buffer[CMSG_SPACE(8 * sizeof(int))] = {};
    iovec io{&c, 1};
    msghdr h{}; h.msg_iov = &io; h.msg_iovlen = 1; h.msg_control = buffer; h.msg_controllen = CMSG_SPACE(n * sizeof(int));
    cmsghdr* m = CMSG_FIRSTHDR(&h); m->cmsg_level = SOL_SOCKET; m->cmsg_type = SCM_RIGHTS; m->cmsg_len = CMSG_LEN(n * sizeof(int));
    memcpy(CMSG_DATA(m), fds, n * sizeof(int));
    if (sendmsg(through, &h, 0) < 0) perror("sendmsg");
}
// A terminal whose master end is kept by nothing but unreachable sockets: `levels` of them, then a cycle.
static void arm(int levels) {
    int m = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC), zero = 0; char name[64];
    if (m < 0) { perror("ptmx"); return; }
    ioctl(m, TIOCSPTLCK, &zero); ptsname_r(m, name, sizeof name);
    if (slave_fd >= 0) close(slave_fd);
    slave_fd = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (ioctl(slave_fd, TIOCSCTTY, 0)) perror("ctty");
    int held = m;
    for (int i = 0; i < levels; ++i) {
        int sv[2]; if (socketpair(AF_UNIX, SOCK_DGRAM, 0, sv)) perror("pair");
        send_fds(sv[0], &held, 1); close(held); close(sv[0]); held = sv[1];
    }
    int sv[2]; if (socketpair(AF_UNIX, SOCK_DGRAM, 0, sv)) perror("pair");
    int fds[2] = {sv[1], held};
    send_fds(sv[0], fds, 2); close(held); close(sv[1]); trigger_fd = sv[0];
}
static void fire() { close(trigger_fd); trigger_fd = -1; }  // the collector runs in a kernel thread
