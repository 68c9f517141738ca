#include <cstddef>
#include <cstdint>

// The headers of the types below; a kernel that uses others (cuda_bf16.h, cuda_fp8.h, ...) includes them itself.
#ifdef __CUDACC__
{includes}#include <cuda_runtime.h>
#else
{declarations}typedef struct CUstream_st* cudaStream_t;
#endif

// float4_e2m1fn_x2 arrives as uint8_t: two 4-bit values to a byte, the first in the low half.
// float8_e8m0fnu arrives as uint8_t: the value is 2^(byte - 127), 255 is NaN.
