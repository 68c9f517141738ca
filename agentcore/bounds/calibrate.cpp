// Measures what this host's CPU can do at best: read bandwidth by working set, and multiply-add rates.
// Prints one JSON object. Usage: calibrate THREADS SECONDS PASSES BYTES...
// SECONDS is the time for each rate, in all PASSES together; BYTES are working sets, for all threads together.
//
// Every pass measures every rate and the highest is kept: what the neighbours do for a while spoils a pass, not a rate.
// Within a pass,
// every thread times many short pieces of its own work while the others do the same; a thread's rate is the 95th
// percentile of its pieces and the host's rate the sum over threads. On a quiet host that is the shared rate; on a busy
// one, pieces that were preempted drop out and the sum can only come out too high, which keeps a bound valid.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <sched.h>
#include <thread>
#include <vector>
#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

using Clock = std::chrono::steady_clock;
typedef uint64_t Words __attribute__((vector_size(64)));
typedef float Lanes __attribute__((vector_size(64)));

static std::vector<int> allowed_cpus() {
    cpu_set_t set;
    std::vector<int> cpus;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
            if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
    return cpus;
}

// A piece does some work and returns how much it was; prepare(thread) makes one.
using Piece = std::function<double()>;

static double total_rate(int threads, double budget, const std::function<Piece(int)>& prepare) {
    const std::vector<int> cpus = allowed_cpus();
    std::vector<double> rates(threads, 0.0);
    std::atomic<int> ready{0};
    std::vector<std::thread> pool;
    for (int t = 0; t < threads; ++t)
        pool.emplace_back([&, t] {
            if (!cpus.empty()) {
                cpu_set_t one;
                CPU_ZERO(&one);
                CPU_SET(cpus[t % cpus.size()], &one);
                sched_setaffinity(0, sizeof one, &one);
            }
            Piece piece = prepare(t);
            std::vector<double> seen;
            piece();
            ready.fetch_add(1);
            while (ready.load() < threads) std::this_thread::yield();
            const auto end = Clock::now() + std::chrono::duration<double>(budget);
            while (seen.size() < 20 || Clock::now() < end) {
                const auto start = Clock::now();
                const double work = piece();
                seen.push_back(work / std::chrono::duration<double>(Clock::now() - start).count());
            }
            auto mark = seen.begin() + seen.size() * 95 / 100;
            std::nth_element(seen.begin(), mark, seen.end());
            rates[t] = *mark;
        });
    double total = 0;
    for (int t = 0; t < threads; ++t) {
        pool[t].join();
        total += rates[t];
    }
    return total;
}

static constexpr size_t kPieceBytes = 512 << 10;

static size_t bytes_each(size_t bytes, int threads) {
    return std::max<size_t>(bytes / threads / kPieceBytes, 1) * kPieceBytes;
}

// Every thread's memory, large enough for the largest working set and filled by the thread that reads it, once.
struct Memory {
    std::vector<void*> parts;
    size_t each;
};

static double read_rate(Memory& memory, int threads, double budget, size_t bytes) {
    const size_t each = bytes_each(bytes, threads);
    return total_rate(threads, budget, [&, each](int t) -> Piece {
        if (!memory.parts[t]) {
            memory.parts[t] = aligned_alloc(kPieceBytes, memory.each);
            if (!memory.parts[t]) {
                fprintf(stderr, "no memory for a working set of %zu bytes\n", memory.each * threads);
                exit(1);
            }
            memset(memory.parts[t], 1, memory.each);
        }
        const Words* base = static_cast<const Words*>(memory.parts[t]);
        size_t at = 0;
        return [base, at, each]() mutable {
            Words a{}, b{}, c{}, d{}, e{}, f{}, g{}, h{};
            const Words* p = base + at / 64;
            for (size_t i = 0; i < kPieceBytes / 64; i += 8) {
                a += p[i]; b += p[i + 1]; c += p[i + 2]; d += p[i + 3];
                e += p[i + 4]; f += p[i + 5]; g += p[i + 6]; h += p[i + 7];
            }
            Words sum = a + b + c + d + e + f + g + h;
            asm volatile("" : : "r"(&sum) : "memory");
            at = at + kPieceBytes < each ? at + kPieceBytes : 0;
            return double(kPieceBytes);
        };
    });
}

static double fma_rate(int threads, double budget) {
    return total_rate(threads, budget, [](int t) -> Piece {
        return [t] {
            constexpr int kChains = 12, kRounds = 4000;
            Lanes acc[kChains];
            for (int k = 0; k < kChains; ++k) acc[k] = Lanes{} + float(k + t);
            Lanes x = Lanes{} + 0.999f, y = Lanes{} + 1e-3f;
            asm volatile("" : "+m"(x), "+m"(y));
            for (int i = 0; i < kRounds; ++i)
#pragma GCC unroll 12
                for (int k = 0; k < kChains; ++k) acc[k] = acc[k] * x + y;
            Lanes sum{};
            for (int k = 0; k < kChains; ++k) sum += acc[k];
            asm volatile("" : : "r"(&sum) : "memory");
            return 2.0 * 16 * kChains * kRounds;
        };
    });
}

static double bf16_rate(int threads, double budget) {
#if defined(__AVX512BF16__)
    return total_rate(threads, budget, [](int t) -> Piece {
        return [t] {
            constexpr int kChains = 12, kRounds = 4000;
            __m512 acc[kChains];
            for (int k = 0; k < kChains; ++k) acc[k] = _mm512_set1_ps(float(k + t));
            Lanes seed = Lanes{} + 0.5f;
            asm volatile("" : "+m"(seed));
            const __m512bh x = _mm512_cvtne2ps_pbh((__m512)seed, (__m512)seed);
            for (int i = 0; i < kRounds; ++i)
#pragma GCC unroll 12
                for (int k = 0; k < kChains; ++k) acc[k] = _mm512_dpbf16_ps(acc[k], x, x);
            __m512 sum = _mm512_setzero_ps();
            for (int k = 0; k < kChains; ++k) sum = _mm512_add_ps(sum, acc[k]);
            asm volatile("" : : "r"(&sum) : "memory");
            return 2.0 * 32 * kChains * kRounds;
        };
    });
#else
    (void)threads, (void)budget;
    return 0.0;
#endif
}

int main(int argc, char** argv) {
    if (argc < 5) {
        fprintf(stderr, "usage: calibrate THREADS SECONDS PASSES BYTES...\n");
        return 2;
    }
    const int threads = std::max(1, atoi(argv[1])), passes = std::max(1, atoi(argv[3]));
    const double budget = atof(argv[2]) / passes;
    std::vector<size_t> sizes;
    for (int i = 4; i < argc; ++i) sizes.push_back(strtoull(argv[i], nullptr, 10));
    Memory memory{std::vector<void*>(threads), bytes_each(*std::max_element(sizes.begin(), sizes.end()), threads)};
    double fp32 = 0, bf16 = 0;
    std::vector<double> reads(sizes.size());
    for (int pass = 0; pass < passes; ++pass) {
        fp32 = std::max(fp32, fma_rate(threads, budget));
        bf16 = std::max(bf16, bf16_rate(threads, budget));
        for (size_t i = 0; i < sizes.size(); ++i)
            reads[i] = std::max(reads[i], read_rate(memory, threads, budget, sizes[i]));
    }
    printf("{\"fp32_flops\": %.6g, \"bf16_flops\": %.6g, \"read_bytes\": {", fp32, bf16);
    for (size_t i = 0; i < sizes.size(); ++i) printf("%s\"%zu\": %.6g", i ? ", " : "", sizes[i], reads[i]);
    printf("}}\n");
    return 0;
}
