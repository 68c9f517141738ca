// What the regimes share: the operands, the tensor-core instruction that runs on every architecture in use, and
// asynchronous copies.

#pragma once

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

struct Product {
    const __nv_bfloat16* a;       // [m, k]
    const __nv_bfloat16* weight;  // [n, k]
    __nv_bfloat16* c;             // [m, n]
    int m, n, k;
};

// d += a * b for one 16 x 8 x 16 tile. With g = lane / 4 and t = lane % 4 a thread holds
//   a: rows g, g + 8, g, g + 8 at columns 2t, 2t, 2t + 8, 2t + 8 (two neighbours each),
//   b: rows 2t and 2t + 8 (two neighbours each) of column g,
//   d: rows g, g, g + 8, g + 8 at columns 2t, 2t + 1, 2t, 2t + 1.
__device__ __forceinline__ void multiply_add(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                             uint32_t b0, uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Copies 16 bytes, or fills them with zeros if not `inside`.
__device__ __forceinline__ void copy_async(uint32_t to, const void* from, bool inside) {
    const int bytes = inside ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int PENDING>
__device__ __forceinline__ void wait_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}
