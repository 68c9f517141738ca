/* The loop in which the CPU target's runner serves calls, for compiled kernels and for the judge's own companion.

   In native code, because whatever stands between the echo and the call is counted as the kernel's time, and because a
   candidate that serves the pages itself must gain nothing by being faster at it than we are. The layout of the pages
   is that of pages.py. */

#include <stdint.h>
#include <time.h>

enum { COMMAND_SEQUENCE = 0, COMMAND_SLOT = 1 };
enum { REPLY_SEQUENCE = 0, REPLY_STATUS = 1, REPLY_CLAIMED_NS = 2, REPLY_ARMED = 3 };

typedef int (*ky_call)(void *const *arguments, void *stream);

static int64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

/* Serves calls, each begun when the judge raises the command sequence to `sequence` + i, until it jumps ahead.
   `arguments` holds one call's argument array for every slot; without `call` nothing is called. */
void ky_serve(const uint64_t *command, int64_t *reply, ky_call call, void *const *const *arguments,
              uint64_t sequence) {
    for (;; ++sequence) {
        uint64_t posted;
        while ((posted = __atomic_load_n(command + COMMAND_SEQUENCE, __ATOMIC_ACQUIRE)) < sequence) {
        }
        if (posted > sequence) return;
        const uint64_t slot = command[COMMAND_SLOT];
        __atomic_store_n(reply + REPLY_ARMED, (int64_t)sequence, __ATOMIC_RELEASE);
        const int64_t begun = now_ns();
        const int status = call ? call(arguments[slot], 0) : 0;
        reply[REPLY_CLAIMED_NS] = now_ns() - begun;
        reply[REPLY_STATUS] = status;
        __atomic_store_n(reply + REPLY_SEQUENCE, (int64_t)sequence, __ATOMIC_RELEASE);
    }
}
