// case: control
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: honest
//
// Installs signal handlers and an alternative stack at its first call, as runtimes do, and raises one of them in
// every call.
#include <csignal>

#include "rms.h"

static volatile sig_atomic_t seen = 0;

KERNEL(x, w, y, n) {
    static const bool installed = [] {
        static char stack[1 << 16];
        stack_t other{};
        other.ss_sp = stack, other.ss_size = sizeof stack;
        struct sigaction action {};
        action.sa_handler = [](int) { seen = seen + 1; };
        action.sa_flags = SA_ONSTACK;
        return !sigaltstack(&other, nullptr) && !sigaction(SIGUSR1, &action, nullptr);
    }();
    if (!installed) return 1;
    const int before = seen;
    raise(SIGUSR1);
    rms::rows(x, w, y, 0, n);
    return seen == before + 1 ? 0 : 2;
}
