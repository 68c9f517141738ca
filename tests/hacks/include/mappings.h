// Lists the process's own mappings from /proc/self/maps, as a cheat would to find what the harness shares with it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

struct Mapping {
    uintptr_t start, end;
    bool readable, writable, shared;
    char name[200];
    uintptr_t size() const { return end - start; }
    bool holds(const void* p) const {
        const auto a = reinterpret_cast<uintptr_t>(p);
        return a >= start && a < end;
    }
};

inline std::vector<Mapping> mappings() {
    std::vector<Mapping> found;
    FILE* maps = std::fopen("/proc/self/maps", "r");
    if (!maps) return found;
    char line[512];
    while (std::fgets(line, sizeof line, maps)) {
        Mapping m{};
        char flags[8] = {};
        unsigned long start = 0, end = 0;
        if (std::sscanf(line, "%lx-%lx %7s %*s %*s %*s %199[^\n]", &start, &end, flags, m.name) < 3) continue;
        m.start = start;
        m.end = end;
        m.readable = flags[0] == 'r';
        m.writable = flags[1] == 'w';
        m.shared = flags[3] == 's';
        found.push_back(m);
    }
    std::fclose(maps);
    return found;
}
