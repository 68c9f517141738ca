// Runs Python source inside the interpreter that hosts this library, if there is one.
#pragma once

#include <dlfcn.h>

inline bool run_python(const char* source) {
    const auto ensure = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "PyGILState_Ensure"));
    const auto release = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "PyGILState_Release"));
    const auto run = reinterpret_cast<int (*)(const char*)>(dlsym(RTLD_DEFAULT, "PyRun_SimpleString"));
    if (!ensure || !release || !run) return false;
    const int state = ensure();
    const bool done = run(source) == 0;
    release(state);
    return done;
}
