// case: control
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: honest
// workloads: both
//
// Keeps a worker thread alive between calls and waits for its half before it returns.
#include <condition_variable>
#include <mutex>
#include <thread>

#include "rms.h"

namespace {
struct Job {
    const ky::bf16 *x, *w;
    ky::bf16* y;
    int64_t first, last;
} job;
std::mutex lock;
std::condition_variable changed;
bool posted = false;

void serve() {
    std::unique_lock held(lock);
    for (;;) {
        changed.wait(held, [] { return posted; });
        rms::rows(job.x, job.w, job.y, job.first, job.last);
        posted = false;
        changed.notify_all();
    }
}
}  // namespace

KERNEL(x, w, y, n) {
    static bool started = false;
    if (!started) {
        started = true;
        std::thread(serve).detach();
    }
    {
        std::scoped_lock held(lock);
        job = {x, w, y, n / 2, n};
        posted = true;
    }
    changed.notify_all();
    rms::rows(x, w, y, 0, n / 2);
    std::unique_lock held(lock);
    changed.wait(held, [] { return !posted; });
    return 0;
}
