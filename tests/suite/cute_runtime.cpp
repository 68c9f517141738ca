// The functions that a CuTe DSL kernel's host code calls, for a machine without a GPU: a launch goes to ``on_launch``.
// A kernel's handle is its name.
#include <cstdint>
#include <cstring>

extern "C" {

struct Config {  // cudaLaunchConfig_t
    uint32_t grid[3], block[3];
    uint64_t shared_bytes;
    void* stream;
    void* attributes;
    uint32_t attribute_count;
};

int (*on_launch)(const char* name, const Config* config, void** arguments) = nullptr;

int _cudaLibraryLoadData(void** library, const void*, void*, void*, uint32_t, void*, void*, uint32_t) {
    *library = library;
    return 0;
}
int _cudaLibraryGetKernel(const char** kernel, void*, const char* name) {
    *kernel = strdup(name);
    return 0;
}
int _cudaGetDevice(int* device) { return *device = 0; }
int _cudaDeviceGetAttribute(int* value, int, int) { return *value = 232448, 0; }  // asked for shared memory alone
int _cuKernelGetAttribute(int* value, int, void*, int) { return *value = 0; }
int _cudaKernelSetAttributeForDevice(void*, int, int, int) { return 0; }
int _cudaFuncSetAttribute(void*, int, int) { return 0; }
int _cudaLaunchKernelEx(const Config* config, const char* kernel, void** arguments) {
    return on_launch(kernel, config, arguments);
}
}
