// A libcuda for tests: the driver calls that the runner makes, checked for their arguments, on host memory. It knows no
// kernels but the judge's own (gate.cu, compiled for the host beside it) and runs every stream in a thread. What a
// candidate does "on the device" it hands to cuLaunchHostFunc.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>

#include "cuda_on_host.h"
#include GATE_SOURCE

// What a case of the corpus launches in the place of ky_clear; what it fetches is not there.
namespace corpus {
namespace rowsum {
void keep_in_l2(const float*, int64_t) {}
}  // namespace rowsum
#include IMITATION
}  // namespace corpus

namespace {

enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_INITIALIZED = 3, INVALID_CONTEXT = 201, INVALID_HANDLE = 400, NOT_FOUND = 500,
       NOT_READY = 600, NOT_SUPPORTED = 801 };

struct Stream {
    std::mutex lock;
    std::condition_variable changed;
    std::deque<std::function<void()>> queue;
    bool busy = false;

    Stream() {
        std::thread([this] {
            for (;;) {
                std::function<void()> next;
                {
                    std::unique_lock held(lock);
                    changed.wait(held, [this] { return !queue.empty(); });
                    next = std::move(queue.front());
                    queue.pop_front();
                    busy = true;
                }
                next();
                std::unique_lock held(lock);
                busy = false;
                changed.notify_all();
            }
        }).detach();
    }
    void push(std::function<void()> work) {
        std::unique_lock held(lock);
        queue.push_back(std::move(work));
        changed.notify_all();
    }
    void wait() {
        std::unique_lock held(lock);
        changed.wait(held, [this] { return queue.empty() && !busy; });
    }
};

struct Kernel {
    std::vector<size_t> sizes;
    std::function<void(void**)> call;  // in a thread of a block, with its parameters
};

template <typename... P, size_t... I>
Kernel made(void (*kernel)(P...), std::index_sequence<I...>) {
    return {{sizeof(P)...}, [kernel](void** p) { kernel(*static_cast<std::remove_cv_t<P>*>(p[I])...); }};
}
template <typename... P>
Kernel made(void (*kernel)(P...)) {
    return made(kernel, std::index_sequence_for<P...>{});
}

std::map<std::string, Kernel> kernels = {
    {"ky_gate", made(ky_gate)}, {"ky_clear", made(ky_clear)}, {"ky_flush", made(ky_flush)}, {"ky_begin", made(ky_begin)},
    {"ky_end", made(ky_end)},   {"ky_touch", made(ky_touch)}, {"ky_sum", made(ky_sum)},
    {"ky_copy", made(ky_copy)}, {"ky_stay", made(ky_stay)},   {"ky_glance", made(ky_glance)},
    {"imitation", made(corpus::imitation)},
};
bool initialised = false, current = false;
std::vector<Stream*> streams;
std::map<uint64_t, size_t> reserved;                       // address to size
std::map<uint64_t, std::pair<int, size_t>> mapped;         // address to (descriptor, size)
std::map<uintptr_t, size_t> pinned;
int module_here = 0, device_context = 0;
using Clock = std::chrono::steady_clock;

}  // namespace

extern "C" {

int cuInit(unsigned flags) { return initialised = flags == 0, flags ? INVALID_VALUE : SUCCESS; }
int cuGetErrorName(int code, const char** text) {
    *text = code == INVALID_VALUE ? "CUDA_ERROR_INVALID_VALUE" : "CUDA_ERROR_OF_THE_FAKE";
    return SUCCESS;
}
int cuDeviceGet(int* device, int ordinal) {
    if (!initialised) return NOT_INITIALIZED;
    *device = 0;
    return ordinal ? INVALID_VALUE : SUCCESS;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
    *context = &device_context;
    return device ? INVALID_VALUE : SUCCESS;
}
int cuCtxSetCurrent(void* context) { return (current = context == &device_context) ? SUCCESS : INVALID_CONTEXT; }
int cuStreamCreate(void** stream, unsigned flags) {
    if (!current) return INVALID_CONTEXT;
    if (flags > 1) return INVALID_VALUE;
    streams.push_back(new Stream);
    *stream = streams.back();
    return SUCCESS;
}
int cuCtxResetPersistingL2Cache() {
    if (std::getenv("FAKE_NO_RESETS")) return NOT_SUPPORTED;
    return current ? SUCCESS : INVALID_CONTEXT;
}
int cuStreamSynchronize(void* stream) {
    static_cast<Stream*>(stream)->wait();
    return SUCCESS;
}
int cuStreamQuery(void* stream) {
    auto* s = static_cast<Stream*>(stream);
    std::unique_lock held(s->lock);
    return s->queue.empty() && !s->busy ? SUCCESS : NOT_READY;
}
int cuCtxSynchronize() {
    for (Stream* each : streams) each->wait();
    return SUCCESS;
}

// -- memory: a descriptor is a memory file ---------------------------------------------------------------------------
int cuMemImportFromShareableHandle(unsigned long long* handle, void* descriptor, int kind) {
    if (kind != 1) return INVALID_VALUE;
    const int kept = dup(static_cast<int>(reinterpret_cast<intptr_t>(descriptor)));
    if (kept < 0) return INVALID_VALUE;
    *handle = static_cast<unsigned long long>(kept);
    return SUCCESS;
}
int cuMemAddressReserve(unsigned long long* address, size_t size, size_t alignment, unsigned long long at,
                        unsigned long long flags) {
    if (!size || alignment || at || flags) return INVALID_VALUE;
    void* found = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    *address = reinterpret_cast<uintptr_t>(found);
    reserved[*address] = size;
    return SUCCESS;
}
int cuMemMap(unsigned long long address, size_t size, size_t offset, unsigned long long handle, unsigned long long flags) {
    if (!reserved.count(address) || reserved[address] != size || offset || flags) return INVALID_VALUE;
    if (lseek(static_cast<int>(handle), 0, SEEK_END) < static_cast<off_t>(size)) return INVALID_VALUE;
    mapped[address] = {static_cast<int>(dup(static_cast<int>(handle))), size};
    return SUCCESS;
}
struct Access {
    int type, id, flags;
};
int cuMemSetAccess(unsigned long long address, size_t size, const Access* access, size_t count) {
    if (!mapped.count(address) || mapped[address].second != size || count != 1) return INVALID_VALUE;
    if (access->type != 1 || access->id != 0 || (access->flags != 1 && access->flags != 3)) return INVALID_VALUE;
    const int protection = PROT_READ | (access->flags == 3 ? PROT_WRITE : 0);
    void* done = mmap(reinterpret_cast<void*>(address), size, protection, MAP_SHARED | MAP_FIXED, mapped[address].first, 0);
    return done == MAP_FAILED ? INVALID_VALUE : SUCCESS;
}
int cuMemRelease(unsigned long long handle) { return close(static_cast<int>(handle)) ? INVALID_VALUE : SUCCESS; }
int cuMemUnmap(unsigned long long address, size_t size) {
    if (!mapped.count(address) || mapped[address].second != size) return INVALID_VALUE;
    close(mapped[address].first);
    mapped.erase(address);
    mmap(reinterpret_cast<void*>(address), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return SUCCESS;
}
int cuMemAddressFree(unsigned long long address, size_t size) {
    if (mapped.count(address) || !reserved.count(address) || reserved[address] != size) return INVALID_VALUE;
    reserved.erase(address);
    return munmap(reinterpret_cast<void*>(address), size) ? INVALID_VALUE : SUCCESS;
}
int cuMemHostRegister_v2(void* address, size_t size, unsigned flags) {
    if (reinterpret_cast<uintptr_t>(address) % 4096 || !size || !(flags & 2)) return INVALID_VALUE;
    pinned[reinterpret_cast<uintptr_t>(address)] = size;
    return SUCCESS;
}
int cuMemHostGetDevicePointer_v2(unsigned long long* device, void* host, unsigned flags) {
    if (flags || !pinned.count(reinterpret_cast<uintptr_t>(host))) return INVALID_VALUE;
    *device = reinterpret_cast<uintptr_t>(host);
    return SUCCESS;
}
int cuMemAlloc_v2(unsigned long long* address, size_t size) {
    if (!size) return INVALID_VALUE;
    *address = reinterpret_cast<uintptr_t>(aligned_alloc(256, (size + 255) / 256 * 256));
    return SUCCESS;
}
int cuMemsetD8_v2(unsigned long long address, unsigned char value, size_t count) {
    std::memset(reinterpret_cast<void*>(address), value, count);
    return SUCCESS;
}

// -- copies: how long one kind takes is what the environment says ----------------------------------------------------
static int copying(const char* slowness, void* to, const void* from, size_t count, void* stream) {
    if (!stream || !to || !from || !count) return INVALID_VALUE;
    static_cast<Stream*>(stream)->push([=] {
        if (const char* us = std::getenv(slowness)) usleep(static_cast<unsigned>(std::atoi(us)));
        std::memcpy(to, from, count);
    });
    return SUCCESS;
}
int cuMemcpyDtoHAsync_v2(void* to, unsigned long long from, size_t count, void* stream) {
    return copying("FAKE_HOST_US", to, reinterpret_cast<void*>(from), count, stream);
}

// -- kernels and events ----------------------------------------------------------------------------------------------
int cuModuleLoadData(void** module, const void* image) {
    *module = &module_here;
    return image ? SUCCESS : INVALID_VALUE;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
    if (module != &module_here) return INVALID_HANDLE;
    const auto found = kernels.find(name);
    if (found == kernels.end()) return NOT_FOUND;
    *function = &found->second;
    return SUCCESS;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* function, int block, size_t shared) {
    *blocks = 2048 / block;
    return function && block > 0 && block <= 1024 && !shared ? SUCCESS : INVALID_VALUE;
}
int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void* stream, void** parameters, void** extra) {
    if (!gx || gy != 1 || gz != 1 || !bx || bx > 1024 || by != 1 || bz != 1 || shared || extra) return INVALID_VALUE;
    const auto* kernel = static_cast<const Kernel*>(function);
    // The driver copies parameters at the launch.
    auto kept = std::make_shared<std::vector<std::vector<char>>>();
    for (size_t i = 0; i < kernel->sizes.size(); ++i) {
        if (!parameters[i]) return INVALID_VALUE;
        const char* from = static_cast<const char*>(parameters[i]);
        kept->emplace_back(from, from + kernel->sizes[i]);
    }
    const auto run = [=] {
        std::vector<void*> pointers;
        for (auto& each : *kept) pointers.push_back(each.data());
        run_grid(gx, bx, [&] { kernel->call(pointers.data()); });
    };
    if (stream)
        static_cast<Stream*>(stream)->push(run);
    else
        run();  // the default stream, of which nobody asks more here
    return SUCCESS;
}
int cuLaunchHostFunc(void* stream, void (*function)(void*), void* data) {
    static_cast<Stream*>(stream)->push([=] { function(data); });
    return SUCCESS;
}
int cuEventCreate(void** event, unsigned flags) {
    *event = new Clock::time_point;
    return flags ? INVALID_VALUE : SUCCESS;
}
int cuEventRecord(void* event, void* stream) {
    static_cast<Stream*>(stream)->push([=] { *static_cast<Clock::time_point*>(event) = Clock::now(); });
    return SUCCESS;
}
int cuEventElapsedTime(float* milliseconds, void* begin, void* end) {
    const auto took = *static_cast<Clock::time_point*>(end) - *static_cast<Clock::time_point*>(begin);
    *milliseconds = std::chrono::duration<float, std::milli>(took).count();
    return SUCCESS;
}
}
