#include <cstddef>
#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

// float4_e2m1fn_x2 arrives as uint8_t: two 4-bit values to a byte, the first in the low half.
// float8_e8m0fnu arrives as uint8_t: the value is 2^(byte - 127), 255 is NaN.
