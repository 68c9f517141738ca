// Finds the page on which the runner tells the judge that a call is done, as a cheat that has read the runner would.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

#include "mappings.h"

struct SharedPages {
    volatile int64_t* reply = nullptr;          // words: sequence, status, claimed nanoseconds
    const volatile uint64_t* command = nullptr;  // words: sequence, slot
};

inline SharedPages find_pages() {
    SharedPages found;
    for (const Mapping& m : mappings()) {
        if (!m.shared || m.size() != 4096) continue;
        if (m.writable && std::strstr(m.name, "reply")) found.reply = reinterpret_cast<volatile int64_t*>(m.start);
        if (std::strstr(m.name, "command")) found.command = reinterpret_cast<const volatile uint64_t*>(m.start);
    }
    return found;
}

// Says that the present call is done.
inline void claim_done(const SharedPages& pages) {
    if (!pages.reply || !pages.command) return;
    pages.reply[1] = 0;
    pages.reply[2] = 1;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    pages.reply[0] = static_cast<int64_t>(pages.command[0]);
}
