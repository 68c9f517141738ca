// The judge's own device code, loaded by the runner beside a candidate: the gates that hold calls back, the grid that
// keeps every multiprocessor busy while inputs come into being and clears the L2 cache, and the marks that say when a
// call began and ended.
//
// ky_end also carries 64 words of the call's outputs at positions drawn from a seed that the judge writes only after
// the call was enqueued. Work that is still under way when the mark appears shows up as poison in that proof.

typedef unsigned long long u64;
typedef unsigned int u32;

#define KY_MAX_OUTPUTS 8
#define KY_BLOCK 1024
#define KY_STAMP_BYTES 43008  // from a mark to its stamp in the page

struct Outputs {
    u64 address[KY_MAX_OUTPUTS];
    u64 words[KY_MAX_OUTPUTS];  // whole 4-byte words of each output
    u64 count;
};

__device__ static u64 splitmix64(u64 value) {
    value += 0x9E3779B97F4A7C15ull;
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ull;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBull;
    return value ^ (value >> 31);
}

#ifndef KY_NOW_NS  // a host that compiles this for itself has a clock of its own
#define KY_NOW_NS device_ns()
__device__ static u64 device_ns() {
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}
#endif

// A mark is what the judge waits for; its stamp, the device's time, is looked at later. A mark that somebody else wrote
// first is written once more here, and its stamp then says another time than the one at which it appeared.
__device__ static void write_mark(volatile u64* mark, u64 value) {
    *(volatile u64*)((volatile char*)mark + KY_STAMP_BYTES) = KY_NOW_NS;
    *mark = value;
}

// Also fetches the call's seed, so that the end mark need not wait for host memory inside the timed interval.
extern "C" __global__ void ky_gate(const volatile u64* gate, u64 threshold, const volatile u64* seed, u64* seed_here) {
    while (*gate < threshold) {
    }
    __threadfence_system();
    *seed_here = *seed;
}

// A thread's part of the keyed sum of a region: for every pair of words the 64-bit product of the words, each under its
// half of the key, folded. No part of it can be worked out before the key is known, so whoever gives the sum has read
// every word. The sum is the same in whatever order and by however many threads.
__device__ static u32 keyed_part(const uint4* region, u64 count, u64 key, u64 first, u64 stride) {
    const u32 low = (u32)key, high = (u32)(key >> 32);
    u32 sum = 0;
#pragma unroll 4
    for (u64 i = first; i < count; i += stride) {
        const uint4 v = __ldcg(region + i);
        const u64 p = (u64)(v.x ^ low) * (v.y ^ high), q = (u64)(v.z ^ low) * (v.w ^ high);
        sum += ((u32)p ^ (u32)(p >> 32)) + ((u32)q ^ (u32)(q >> 32));
    }
    return sum;
}

// The sum over the block's threads, in its first one. A barrier must lie between two uses.
__device__ static u32 block_sum(u32 part) {
    __shared__ u32 parts[32];
    const u32 warp = __reduce_add_sync(0xFFFFFFFFu, part);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = warp;
    __syncthreads();
    u32 sum = 0;
    if (threadIdx.x == 0)
        for (u32 w = 0; w < blockDim.x / 32; ++w) sum += parts[w];
    return sum;
}

// What the blocks of one ky_clear share, in device memory; zero between two launches but for `go` and the keys.
struct Hold {
    u64 go;  // stamp of the launch plus the last step that all blocks may take
    u64 key[2];
    u32 done[3], sum[2];
};

// What the host reads and writes of one ky_clear, in the page.
struct Held {
    u64 arrived, cleared, sum[2];
};

// Fills every multiprocessor, as many threads as they hold, from before the inputs of a pair of calls come into being
// until the first of them begins: meanwhile nothing else of this context can run. It passes three times over a region of
// twice the cache. At first, so that whatever earlier calls left dirty is written back; that every block is through says
// that all are there, and nothing else. While inputs are written the device may take it away for a turn of the judge's:
// asked whether it is back, in the word behind `published`, it says so. Then, when the inputs have been written, so that
// nothing of them is left in the cache, and what is written back now is them alone. Then, after the gate's opening,
// which takes the time it always takes. The last block to finish writes the begin mark, and only then do the others
// leave their multiprocessors.
__device__ static void hold_and_clear(const volatile u64* published, const volatile u64* gate, u64 threshold,
                                      const volatile u64* keys, const volatile u64* seed, u64* seed_here,
                                      const uint4* region, u64 count, Hold* hold, volatile Held* held,
                                      volatile u64* mark, u64 value) {
    __shared__ u64 key;
    const u64 stamp = value * 1024 + threshold * 4;
    volatile Hold* const seen = hold;
    for (u32 pass = 0; pass < 3; ++pass) {
        if (threadIdx.x == 0 && pass == 0) key = 0;
        if (threadIdx.x == 0 && pass) {
            if (blockIdx.x == 0) {
                const volatile u64* const awaited = pass == 1 ? published : gate;
                for (bool answered = pass == 2;;) {
                    const u64 asked = answered ? 0 : published[1], here = *awaited;  // both on their way at once
                    if (here >= threshold) break;
                    if (!answered && asked >= threshold) {
                        held->arrived = value;
                        answered = true;
                    }
                }
                __threadfence_system();
                seen->key[pass - 1] = keys[pass - 1];
                if (pass == 1) *seed_here = *seed;
                __threadfence();
                seen->go = stamp + pass;
            } else {
                // Steps follow each other without a pause where gates are open already, so that one may be missed.
                while (seen->go - (stamp + pass) > 2) {
                }
            }
            __threadfence();
            key = seen->key[pass - 1];
        }
        __syncthreads();
        const u64 first = blockIdx.x * (u64)blockDim.x + threadIdx.x;
        const u32 sum = block_sum(keyed_part(region, count, key, first, (u64)gridDim.x * blockDim.x));
        if (threadIdx.x == 0) {
            // The first pass is for nobody to check, but kept: what is summed nowhere is not read.
            if (pass || sum == 0x12345678u) atomicAdd(&hold->sum[pass ? pass - 1 : 0], pass ? sum : 0u);
            __threadfence();
            if (atomicAdd(&hold->done[pass], 1u) == gridDim.x - 1) {
                __threadfence();
                seen->done[pass] = 0;
                if (pass == 0) {
                    __threadfence_system();
                    held->arrived = value;
                } else {
                    const u32 total = seen->sum[pass - 1];
                    seen->sum[pass - 1] = 0;
                    if (pass == 1) {
                        held->sum[0] = total;
                        __threadfence_system();
                        held->cleared = value;
                    } else {
                        write_mark(mark, value);
                        held->sum[1] = total;
                        seen->go = stamp + 3;
                    }
                }
            }
        }
    }
    if (threadIdx.x == 0)
        while (seen->go != stamp + 3) {
        }
    __syncthreads();
}

#define KY_HOLDING(name)                                                                                              \
    extern "C" __global__ void __launch_bounds__(KY_BLOCK, 2)                                                         \
        name(const volatile u64* published, const volatile u64* gate, u64 threshold, const volatile u64* keys,        \
             const volatile u64* seed, u64* seed_here, const uint4* region, u64 count, Hold* hold,                    \
             volatile Held* held, volatile u64* mark, u64 value) {                                                    \
        hold_and_clear(published, gate, threshold, keys, seed, seed_here, region, count, hold, held, mark, value);    \
    }

KY_HOLDING(ky_clear)
// The same behind a pair, until the judge has looked at outputs: both words are the one that says so, and the mark is
// nobody's. What was left to be done behind the calls has no place meanwhile.
KY_HOLDING(ky_stay)

// Copies for the judge, so that writing inputs and clearing the cache of them are work of one channel, which the device
// does in one turn: a copy by the driver may be another channel's, and between two turns there is room for a third.
extern "C" __global__ void ky_copy(unsigned char* to, const unsigned char* from, u64 bytes) {
    const u64 first = blockIdx.x * (u64)blockDim.x + threadIdx.x, stride = (u64)gridDim.x * blockDim.x;
    const u64 rest = ((u64)to | (u64)from) % 16 ? 0 : bytes / 16 * 16;
    for (u64 i = first; i < rest / 16; i += stride) ((uint4*)to)[i] = ((const uint4*)from)[i];
    for (u64 i = rest + first; i < bytes; i += stride) to[i] = from[i];
}

// The keyed sum alone, for the judge to check what ky_clear said.
extern "C" __global__ void __launch_bounds__(KY_BLOCK, 2)
    ky_sum(const uint4* region, u64 count, u64 key, u32* result) {
    const u64 first = blockIdx.x * (u64)blockDim.x + threadIdx.x;
    const u32 sum = block_sum(keyed_part(region, count, key, first, (u64)gridDim.x * blockDim.x));
    if (threadIdx.x == 0) atomicAdd(result, sum);
}

// Clears the cache before a call whose time is only claimed: reads, never writes.
extern "C" __global__ void ky_flush(const uint4* region, u64 count, u32* sink) {
    const u64 first = blockIdx.x * (u64)blockDim.x + threadIdx.x;
    const u32 sum = keyed_part(region, count, 0, first, (u64)gridDim.x * blockDim.x);
    if (sum == 0x12345678u) *sink = sum;  // keeps the loads alive
}

extern "C" __global__ void ky_begin(volatile u64* mark, u64 value) { write_mark(mark, value); }

extern "C" __global__ void ky_end(Outputs outputs, const u64* seed, volatile u32* proof, volatile u64* mark,
                                  u64 value) {
    if (outputs.count) {
        const u64 draw = splitmix64(*seed + threadIdx.x);
        const u64 which = (draw >> 56) % outputs.count;
        if (outputs.words[which]) {
            const u64 word = (draw & 0x00FFFFFFFFFFFFFFull) % outputs.words[which];
            proof[threadIdx.x] = ((const volatile u32*)outputs.address[which])[word];
        }
    }
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0) write_mark(mark, value);
}

// Stands in for a candidate when gaps are calibrated: dirties an output the way a kernel would.
extern "C" __global__ void ky_touch(u32* output, u64 words) {
    const u64 stride = (u64)gridDim.x * blockDim.x;
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < words; i += stride) output[i] = (u32)i;
}

// -- a look at the outputs of many calls and their references, in one pass -------------------------------------------
#define KY_PAIRS 64
#define KY_GLANCE_BLOCK 256

struct Pairs {
    u64 got[KY_PAIRS], want[KY_PAIRS];
};

// What is found about one pair, and where its blocks add it up: all zero before the launch. Errors are floats that are
// not negative, so that their bits are in the order of their values, and those of any NaN are above them all.
struct Glanced {
    double wrong, error, relative;
    u64 wrong_here;
    u32 error_here, relative_here, got_bits, want_bits, done, unused;
};
static_assert(sizeof(Glanced) == 56, "ROW_WORDS of cuda_glance.py");

struct Look {
    u32 wrong, error, relative, got, want;
};

__device__ static u32 larger(u32 a, u32 b) { return a < b ? b : a; }

// An element of either, as the bits of a float. Every operation is rounded by itself, as in _glance_rows of
// correctness.py: written with operators, multiplication and addition would become one.
__device__ static void look_at(Look& seen, u32 got, u32 want, float rtol, float atol) {
    const float size = __uint_as_float(want & 0x7FFFFFFFu);
    const u32 bits = __float_as_uint(__fsub_rn(__uint_as_float(got), __uint_as_float(want))) & 0x7FFFFFFFu;
    const float error = __uint_as_float(bits);
    seen.wrong += !(error <= __fadd_rn(__fmul_rn(size, rtol), atol));  // NaN is never right
    seen.error = larger(seen.error, bits);
    // Zero is no news, and takes longest to divide. fmaxf drops a size that is NaN, but then the error is NaN.
    if (bits)
        seen.relative = larger(seen.relative, __float_as_uint(__fdiv_rn(error, fmaxf(size, 1e-6f))));
    seen.got |= got;
    seen.want |= want;
}

template <bool HALVES>
__device__ static void look_at_word(Look& seen, u32 got, u32 want, float rtol, float atol) {
    if (HALVES) {
        look_at(seen, got << 16, want << 16, rtol, atol);
        look_at(seen, got & 0xFFFF0000u, want & 0xFFFF0000u, rtol, atol);
    } else {
        look_at(seen, got, want, rtol, atol);
    }
}

template <bool HALVES>
__device__ static Look look_through(u64 got, u64 want, u64 count, float rtol, float atol, u64 first, u64 stride) {
    Look seen = {0, 0, 0, 0, 0};
    const u64 each = HALVES ? 8 : 4, rest = (got | want) % 16 ? 0 : count / each * each;
    for (u64 i = first; i < rest / each; i += stride) {
        const uint4 g = __ldcg((const uint4*)got + i), w = __ldcg((const uint4*)want + i);
        look_at_word<HALVES>(seen, g.x, w.x, rtol, atol);
        look_at_word<HALVES>(seen, g.y, w.y, rtol, atol);
        look_at_word<HALVES>(seen, g.z, w.z, rtol, atol);
        look_at_word<HALVES>(seen, g.w, w.w, rtol, atol);
    }
    for (u64 i = rest + first; i < count; i += stride) {
        if (HALVES) {
            const u32 g = __ldcg((const unsigned short*)got + i), w = __ldcg((const unsigned short*)want + i);
            look_at(seen, g << 16, w << 16, rtol, atol);
        } else {
            look_at(seen, __ldcg((const u32*)got + i), __ldcg((const u32*)want + i), rtol, atol);
        }
    }
    return seen;
}

// How `count` bfloat16 (`halves`) or float32 numbers of each pair agree: elements that are not plainly right, plus one
// where all of `got` are zero and not all of `want`; the largest error; the largest relative error. All of it is what
// _glance_rows says, to the last bit, but for which NaN. So many `blocks` look at each pair; the last of them to be
// through writes down what all found.
extern "C" __global__ void __launch_bounds__(KY_GLANCE_BLOCK, 6)
    ky_glance(Pairs pairs, u32 blocks, u64 count, u32 halves, float rtol, float atol, Glanced* found) {
    __shared__ u32 parts[5][KY_GLANCE_BLOCK / 32];
    const u32 pair = blockIdx.x / blocks;
    const u64 got = pairs.got[pair], want = pairs.want[pair], stride = (u64)blocks * KY_GLANCE_BLOCK;
    const u64 first = (u64)(blockIdx.x % blocks) * KY_GLANCE_BLOCK + threadIdx.x;
    Look seen = halves ? look_through<true>(got, want, count, rtol, atol, first, stride)
                       : look_through<false>(got, want, count, rtol, atol, first, stride);
    const u32 all = 0xFFFFFFFFu, warp = threadIdx.x / 32;
    seen.wrong = __reduce_add_sync(all, seen.wrong);
    seen.error = __reduce_max_sync(all, seen.error);
    seen.relative = __reduce_max_sync(all, seen.relative);
    seen.got = __reduce_or_sync(all, seen.got);
    seen.want = __reduce_or_sync(all, seen.want);
    if (threadIdx.x % 32 == 0) {
        parts[0][warp] = seen.wrong, parts[1][warp] = seen.error, parts[2][warp] = seen.relative;
        parts[3][warp] = seen.got, parts[4][warp] = seen.want;
    }
    __syncthreads();
    if (threadIdx.x) return;
    for (u32 w = 1; w < KY_GLANCE_BLOCK / 32; ++w) {
        seen.wrong += parts[0][w];
        seen.error = larger(seen.error, parts[1][w]), seen.relative = larger(seen.relative, parts[2][w]);
        seen.got |= parts[3][w], seen.want |= parts[4][w];
    }
    Glanced* const here = found + pair;
    atomicAdd(&here->wrong_here, (u64)seen.wrong);
    atomicMax(&here->error_here, seen.error);
    atomicMax(&here->relative_here, seen.relative);
    atomicOr(&here->got_bits, seen.got & 0x7FFFFFFFu);
    atomicOr(&here->want_bits, seen.want & 0x7FFFFFFFu);
    __threadfence();
    if (atomicAdd(&here->done, 1u) != blocks - 1) return;
    __threadfence();
    volatile Glanced* const whole = here;
    whole->wrong = (double)(whole->wrong_here + (!whole->got_bits && whole->want_bits));
    whole->error = (double)__uint_as_float(whole->error_here);
    whole->relative = (double)__uint_as_float(whole->relative_here);
}
