// Routing on a CPU: the eight largest logits by insertion into a sorted list, then their softmax.

#include <cmath>
#include <cstdint>

#include "problem.h"

constexpr int64_t PARALLEL_FROM = 256;  // tokens

static void route(const float* logits, float* weights, int32_t* expert_ids) {
    float best[KY_TOP_K];
    int32_t which[KY_TOP_K];
    for (int place = 0; place < KY_TOP_K; ++place) best[place] = -INFINITY, which[place] = 0;
    for (int32_t expert = 0; expert < KY_EXPERTS; ++expert) {
        const float logit = logits[expert];
        if (!(logit > best[KY_TOP_K - 1])) continue;
        int place = KY_TOP_K - 1;
        for (; place > 0 && logit > best[place - 1]; --place) {
            best[place] = best[place - 1];
            which[place] = which[place - 1];
        }
        best[place] = logit;
        which[place] = expert;
    }
    // The softmax over all experts, renormalised over the eight, is the softmax over the eight.
    float total = 0.0f;
    for (int place = 0; place < KY_TOP_K; ++place) total += weights[place] = std::exp(best[place] - best[0]);
    for (int place = 0; place < KY_TOP_K; ++place) {
        weights[place] /= total;
        expert_ids[place] = which[place];
    }
}

extern "C" int kernel_launch(const float* logits, float* weights, int32_t* expert_ids, int64_t tokens) {
#pragma omp parallel for schedule(static) if (tokens >= PARALLEL_FROM)
    for (int64_t t = 0; t < tokens; ++t) {
        route(logits + t * KY_EXPERTS, weights + t * KY_TOP_K, expert_ids + t * KY_TOP_K);
    }
    return 0;
}
