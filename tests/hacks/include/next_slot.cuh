// Looks, on the device and while a call is under way, for a slot whose inputs are new though its call has not been
// enqueued: which slot comes next nobody tells, but all lie at a fixed stride.
#pragma once

#include <cstdint>

#include "batches.cuh"

namespace next_slot {

constexpr int MOST = 32;

struct Inputs {
    Operand<const unsigned> words;
    int64_t count = 0;  // words of the input of a slot
    int slots = 0;
};

__device__ unsigned last_words[MOST];
__device__ bool known[MOST];
__device__ int found;         // a slot, -1 if none
__device__ int ready[MOST];  // whether the slot's share of work is done

// One block of MOST threads. What is new in the slots `first` and `own`, the pair's, is no surprise.
static __global__ void look(Inputs inputs, int first, int own) {
    const int slot = static_cast<int>(threadIdx.x);
    if (slot == 0) found = -1;
    __syncthreads();
    if (slot >= inputs.slots) return;
    const unsigned word = *static_cast<const volatile unsigned*>(inputs.words.of(slot) + inputs.count - 1);
    const bool is_new = known[slot] && word != last_words[slot];
    known[slot] = true;
    last_words[slot] = word;
    if (slot == first || slot == own) ready[slot] = 0;
    else if (is_new && atomicCAS(&found, -1, slot) == -1) ready[slot] = 1;
}

}  // namespace next_slot
