// Has the kernel continue this process while it is stopped, by nobody's signal. A child with a timer waits in a vfork,
// where a stop does not reach it; its own child is in our process group, which is ours alone in its session but for that.
// When the timer kills the first, the group has lost its last tie to the session, and has stopped members: to these the
// kernel sends SIGHUP and SIGCONT. Both children share our memory, so that making them takes microseconds.
#pragma once

#include <sched.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>

namespace orphan {

constexpr int KEPT = 256, STACK = 1 << 13, GRANDCHILD_US = 100000;
alignas(64) inline char stacks[KEPT][2][STACK];
inline int group = 0, used = 0;
inline std::atomic<bool> waits{false};  // the child, in its vfork

struct Child {
    int64_t ends_after_us;
    char* stack;  // of its own child
};
inline Child children[KEPT];

inline void end_after(int64_t us) {
    std::signal(SIGALRM, SIG_DFL);
    itimerval timer = {};
    timer.it_value.tv_sec = us / 1000000, timer.it_value.tv_usec = us % 1000000;
    setitimer(ITIMER_REAL, &timer, nullptr);
}

inline int grandchild(void*) {
    std::signal(SIGHUP, SIG_DFL);  // which ends it
    end_after(GRANDCHILD_US);
    setpgid(0, group);
    waits = true;
    for (;;) pause();
}

inline int child(void* of) {
    const Child& one = *static_cast<const Child*>(of);
    setpgid(0, 0);
    end_after(one.ends_after_us);
    clone(grandchild, one.stack, CLONE_VM | CLONE_VFORK | SIGCHLD, nullptr);
    syscall(SYS_exit, 0);
    return 0;
}

// Once. False where the session stays that of whoever adopts orphans.
inline bool begin() {
    std::signal(SIGHUP, SIG_IGN);
    std::signal(SIGCHLD, SIG_IGN);
    const bool own = setsid() > 0 || getsid(0) == getpid();
    group = getpgrp();
    return own;
}

// To be continued so long from now, if it is stopped then. `waits` is set when that is arranged.
inline bool arm(int64_t us) {
    const int at = used++ % KEPT;
    waits = false;
    children[at] = {us, stacks[at][1] + STACK};
    return clone(child, stacks[at][0] + STACK, CLONE_VM | SIGCHLD, &children[at]) > 0;
}

}  // namespace orphan
