// What a cheat calls of the driver itself, looked up by name: the runner has it loaded.
#pragma once

#include <dlfcn.h>

// Null where the driver has no such function.
template <typename Function>
Function driver(const char* name) {
    static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    return library ? reinterpret_cast<Function>(dlsym(library, name)) : nullptr;
}

// Operations of a stream on a 64-bit word of memory, done without a multiprocessor.
using WordOperation = int (*)(cudaStream_t, unsigned long long address, unsigned long long value, unsigned flags);
constexpr unsigned AT_LEAST = 0, ANY_BIT = 2, PLAIN = 0;  // when a wait is over, and how a word is written

inline WordOperation stream_wait() { return driver<WordOperation>("cuStreamWaitValue64_v2"); }
inline WordOperation stream_write() { return driver<WordOperation>("cuStreamWriteValue64_v2"); }
