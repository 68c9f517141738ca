// The program that a sanitizer watches: it calls the kernel once per workload of a plan, with every tensor in an
// allocation of exactly its size, so that one element too far is seen. Linked with the kernel and its generated entry.
//
// usage: kernel PLAN DATA SECONDS. The plan is text: "workload INDEX COUNT", then COUNT parameters in the order of the
// interface: "in BYTES OFFSET" (content at OFFSET of DATA), "out BYTES", "real VALUE", "int VALUE". No workload is begun
// after SECONDS. What happens is said on stderr in lines that begin with "ky:".

#include <unistd.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#ifdef KY_CUDA
#include <cuda_runtime_api.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

extern "C" int ky_call(void* const* args, void* stream);

namespace {

[[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "ky:failed %s\n", what);
    std::_Exit(0);
}

double now_s() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void read_content(std::FILE* data, int64_t offset, void* to, size_t size) {
    if (std::fseek(data, static_cast<long>(offset), SEEK_SET) != 0 || std::fread(to, 1, size, data) != size) {
        fail("the data file is too short");
    }
}

#ifdef KY_CUDA

void check(cudaError_t error, const char* what) {
    if (error == cudaSuccess) return;
    std::fprintf(stderr, "ky:device %d %s in %s\n", static_cast<int>(error), cudaGetErrorName(error), what);
    std::_Exit(0);
}

void* allocate(size_t size) {
    void* made = nullptr;
    check(cudaMalloc(&made, size > 0 ? size : 1), "cudaMalloc");
    return made;
}

void fill(void* to, std::FILE* data, int64_t offset, size_t size) {
    auto* content = new char[size];
    read_content(data, offset, content, size);
    check(cudaMemcpy(to, content, size, cudaMemcpyHostToDevice), "cudaMemcpy");
    delete[] content;
}

void release(void* memory) { check(cudaFree(memory), "cudaFree"); }

int call(void* const* arguments) {
    static cudaStream_t stream = nullptr;
    if (stream == nullptr) check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    const int status = ky_call(arguments, stream);
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    return status;
}

#else

void* allocate(size_t size) {
    void* made = nullptr;
    if (posix_memalign(&made, 512, size > 0 ? size : 1) != 0) fail("out of memory");
#if defined(__SANITIZE_ADDRESS__)
    if (size == 0) ASAN_POISON_MEMORY_REGION(made, 1);
#endif
    return made;
}

void fill(void* to, std::FILE* data, int64_t offset, size_t size) { read_content(data, offset, to, size); }

void release(void* memory) { std::free(memory); }

int call(void* const* arguments) { return ky_call(arguments, nullptr); }

#endif

union Number {
    double real;
    int64_t whole;
};

}  // namespace

int main(int count, char** words) {
    if (count != 4) fail("usage: kernel PLAN DATA SECONDS");
    std::FILE* plan = std::fopen(words[1], "r");
    std::FILE* data = std::fopen(words[2], "rb");
    if (plan == nullptr || data == nullptr) fail("plan or data cannot be read");
    const double last_s = now_s() + std::atof(words[3]);
    dup2(STDERR_FILENO, STDOUT_FILENO);  // what the kernel prints must not be taken for the tool's report
    std::setvbuf(stderr, nullptr, _IOLBF, 1 << 12);

    int index = 0, parameters = 0;
    while (std::fscanf(plan, " workload %d %d", &index, &parameters) == 2) {
        if (now_s() > last_s) {
            std::fprintf(stderr, "ky:late %d\n", index);
            break;
        }
        // Plain arrays: this file is compiled with every kernel, and a header for a container takes longer than all else.
        auto* numbers = new Number[static_cast<size_t>(parameters)]();
        auto* arguments = new void*[static_cast<size_t>(parameters)]();
        auto* tensors = new void*[static_cast<size_t>(parameters)]();
        std::fprintf(stderr, "ky:begin %d\n", index);
        for (int p = 0; p < parameters; ++p) {
            char role[8] = "";
            int64_t size = 0, offset = 0;
            if (std::fscanf(plan, " %7s", role) != 1) fail("the plan is cut short");
            const auto at = static_cast<size_t>(p);
            if (std::strcmp(role, "real") == 0) {
                if (std::fscanf(plan, "%lf", &numbers[at].real) != 1) fail("bad number in the plan");
                arguments[at] = &numbers[at];
            } else if (std::strcmp(role, "int") == 0) {
                if (std::fscanf(plan, "%" SCNd64, &numbers[at].whole) != 1) fail("bad number in the plan");
                arguments[at] = &numbers[at];
            } else {
                const bool input = std::strcmp(role, "in") == 0;
                if (std::fscanf(plan, "%" SCNd64, &size) != 1) fail("bad size in the plan");
                if (input && std::fscanf(plan, "%" SCNd64, &offset) != 1) fail("bad offset in the plan");
                arguments[at] = allocate(static_cast<size_t>(size));
                tensors[at] = arguments[at];
                if (input) fill(arguments[at], data, offset, static_cast<size_t>(size));
                std::fprintf(stderr, "ky:buffer %d %p %" PRId64 "\n", p, arguments[at], size);
            }
        }
        const int status = call(arguments);
        // Freed, so that a pointer kept from an earlier call is seen when it is used again.
        for (int p = 0; p < parameters; ++p)
            if (tensors[p] != nullptr) release(tensors[p]);
        delete[] tensors;
        delete[] arguments;
        delete[] numbers;
        std::fprintf(stderr, "ky:end %d %d\n", index, status);
    }
    std::fclose(plan);
    std::fclose(data);
    return 0;
}
