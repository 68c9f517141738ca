#include <cstddef>
#include <cstdint>

namespace ky {

// bfloat16: the upper half of a float. Conversions are branch-free, so loops over them vectorise.
struct bf16 {
    uint16_t bits;

    bf16() = default;
    constexpr bf16(float value) : bits(round(value)) {}
    constexpr operator float() const { return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16); }

    static constexpr bf16 from_bits(uint16_t bits) {
        bf16 made(0.0f);
        made.bits = bits;
        return made;
    }

private:
    // Round to nearest even; a NaN stays a (quiet) NaN.
    static constexpr uint16_t round(float value) {
        const uint32_t word = __builtin_bit_cast(uint32_t, value);
        const uint32_t rounded = (word + 0x7fffu + ((word >> 16) & 1u)) >> 16;
        const uint32_t quiet = (word >> 16) | 0x40u;
        return static_cast<uint16_t>((word & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
    }
};
static_assert(sizeof(bf16) == 2);

// float8_e4m3fn, float8_e5m2 and float8_e8m0fnu arrive as bytes; these read them.
constexpr float from_e4m3(uint8_t byte) {
    const uint32_t sign = static_cast<uint32_t>(byte & 0x80u) << 24;
    const uint32_t magnitude = byte & 0x7fu;
    const float normal = __builtin_bit_cast(float, (magnitude << 20) + (120u << 23));
    const float subnormal = static_cast<float>(magnitude) * 0.001953125f;  // 2^-9
    const float value = magnitude == 0x7fu ? __builtin_nanf("") : magnitude < 8u ? subnormal : normal;
    return __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, value) | sign);
}

constexpr float from_e5m2(uint8_t byte) {
    const uint32_t sign = static_cast<uint32_t>(byte & 0x80u) << 24;
    const uint32_t magnitude = byte & 0x7fu;
    const uint32_t normal = (magnitude << 21) + (112u << 23);
    const float subnormal = static_cast<float>(magnitude) * 0.0000152587890625f;  // 2^-16
    const uint32_t special = (magnitude << 21) | 0x7f800000u;
    const uint32_t value = magnitude >= 0x7cu ? special
                           : magnitude < 4u   ? __builtin_bit_cast(uint32_t, subnormal)
                                              : normal;
    return __builtin_bit_cast(float, value | sign);
}

constexpr float from_e8m0(uint8_t byte) {
    const uint32_t word = byte == 255u ? 0x7fc00000u : byte == 0u ? 0x00400000u : static_cast<uint32_t>(byte) << 23;
    return __builtin_bit_cast(float, word);
}

// float4_e2m1fn_x2 arrives as bytes, two values each, the first in the low half; this reads one half.
constexpr float from_e2m1(uint8_t half) {
    constexpr float values[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
    return (half & 8u) ? -values[half & 7u] : values[half & 7u];
}

}  // namespace ky
