// Tells ThreadSanitizer what libgomp's own synchronisation orders. libgomp waits on futexes that the sanitizer does not
// see, so without this every parallel region would be reported as a race. Each function stands in front of libgomp's of
// the same name, calls it, and marks what happens before what: the fork and the join of a region, and its barriers.
//
// Beginning and end of a region are two objects, as are consecutive barriers: one object for both would order threads
// that nothing orders, and hide their races.

#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#define KY_PLAIN __attribute__((no_sanitize("thread")))

namespace {

struct Region {
    void (*body)(void*);
    void* data;
    char begin, end;
    char barrier[2];
};

thread_local Region* current = nullptr;
thread_local unsigned passed = 0;  // barriers of the current region

KY_PLAIN void enter(void* argument) {
    auto* region = static_cast<Region*>(argument);
    Region* outer = current;
    const unsigned outer_passed = passed;
    current = region;
    passed = 0;
    __tsan_acquire(&region->begin);
    region->body(region->data);
    __tsan_release(&region->end);
    current = outer;
    passed = outer_passed;
}

template <typename Function>
KY_PLAIN Function real(const char* name) {
    return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

template <typename Call>
KY_PLAIN void fork_join(void (*body)(void*), void* data, Call call) {
    Region region{body, data, 0, 0, {0, 0}};
    __tsan_release(&region.begin);
    call(&region);
    __tsan_acquire(&region.end);
}

template <typename Call>
KY_PLAIN void meet(Call call) {
    if (current == nullptr) {
        call();
        return;
    }
    char* barrier = &current->barrier[passed++ & 1u];
    __tsan_release(barrier);
    call();
    __tsan_acquire(barrier);
}

char critical, atomic_section, named;

}  // namespace

extern "C" {

KY_PLAIN void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags) {
    using F = void (*)(void (*)(void*), void*, unsigned, unsigned);
    static const F next = real<F>("GOMP_parallel");
    fork_join(body, data, [&](Region* region) KY_PLAIN { next(enter, region, threads, flags); });
}

KY_PLAIN void GOMP_parallel_sections(void (*body)(void*), void* data, unsigned threads, unsigned count, unsigned flags) {
    using F = void (*)(void (*)(void*), void*, unsigned, unsigned, unsigned);
    static const F next = real<F>("GOMP_parallel_sections");
    fork_join(body, data, [&](Region* region) KY_PLAIN { next(enter, region, threads, count, flags); });
}

#define KY_PARALLEL_LOOP(NAME)                                                                                       \
    KY_PLAIN void NAME(void (*body)(void*), void* data, unsigned threads, long start, long end, long step, long chunk, \
                       unsigned flags) {                                                                             \
        using F = void (*)(void (*)(void*), void*, unsigned, long, long, long, long, unsigned);                      \
        static const F next = real<F>(#NAME);                                                                        \
        fork_join(body, data,                                                                                        \
                  [&](Region* region) KY_PLAIN { next(enter, region, threads, start, end, step, chunk, flags); });   \
    }
KY_PARALLEL_LOOP(GOMP_parallel_loop_static)
KY_PARALLEL_LOOP(GOMP_parallel_loop_dynamic)
KY_PARALLEL_LOOP(GOMP_parallel_loop_guided)
KY_PARALLEL_LOOP(GOMP_parallel_loop_nonmonotonic_dynamic)
KY_PARALLEL_LOOP(GOMP_parallel_loop_nonmonotonic_guided)

#define KY_PARALLEL_RUNTIME(NAME)                                                                             \
    KY_PLAIN void NAME(void (*body)(void*), void* data, unsigned threads, long start, long end, long step,    \
                       unsigned flags) {                                                                      \
        using F = void (*)(void (*)(void*), void*, unsigned, long, long, long, unsigned);                     \
        static const F next = real<F>(#NAME);                                                                 \
        fork_join(body, data,                                                                                 \
                  [&](Region* region) KY_PLAIN { next(enter, region, threads, start, end, step, flags); });   \
    }
KY_PARALLEL_RUNTIME(GOMP_parallel_loop_runtime)
KY_PARALLEL_RUNTIME(GOMP_parallel_loop_nonmonotonic_runtime)
KY_PARALLEL_RUNTIME(GOMP_parallel_loop_maybe_nonmonotonic_runtime)

#define KY_BARRIER(NAME)                                \
    KY_PLAIN void NAME(void) {                          \
        using F = void (*)(void);                       \
        static const F next = real<F>(#NAME);           \
        meet([&]() KY_PLAIN { next(); });               \
    }
KY_BARRIER(GOMP_barrier)
KY_BARRIER(GOMP_loop_end)
KY_BARRIER(GOMP_sections_end)

#define KY_LOCKED(START, END, OBJECT)         \
    KY_PLAIN void START(void) {               \
        using F = void (*)(void);             \
        static const F next = real<F>(#START); \
        next();                               \
        __tsan_acquire(&OBJECT);              \
    }                                         \
    KY_PLAIN void END(void) {                 \
        using F = void (*)(void);             \
        static const F next = real<F>(#END);  \
        __tsan_release(&OBJECT);              \
        next();                               \
    }
KY_LOCKED(GOMP_critical_start, GOMP_critical_end, critical)
KY_LOCKED(GOMP_atomic_start, GOMP_atomic_end, atomic_section)

KY_PLAIN void GOMP_critical_name_start(void** name) {
    using F = void (*)(void**);
    static const F next = real<F>("GOMP_critical_name_start");
    next(name);
    __tsan_acquire(name != nullptr ? static_cast<void*>(name) : &named);
}

KY_PLAIN void GOMP_critical_name_end(void** name) {
    using F = void (*)(void**);
    static const F next = real<F>("GOMP_critical_name_end");
    __tsan_release(name != nullptr ? static_cast<void*>(name) : &named);
    next(name);
}
}
