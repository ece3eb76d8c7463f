// Sine, cosine and tangent of float without double, in place of CUDA's, which compute in double where the argument is
// large, and keep registers and local memory for that where it never is. Nearer than three units in the last place to
// the exact value, below 65536 than two; the bits are those of the numba backend.
// See warpdrive/backends/numba_cuda/mathematics.py for where the numbers come from.

#pragma once

// A number as the nearest multiple of pi/2, modulo 4, and the signed distance from it.
struct wd_quarters {
    int count;
    float rest;
};

// The binary digits of 2/pi behind the point, 32 in a word, and a word of zeros before them.
WD_FUNCTION unsigned long long wd_digits_of_two_over_pi(int word) {
    switch (word) {
        case 1: return 0xA2F9836Eu;
        case 2: return 0x4E441529u;
        case 3: return 0xFC2757D1u;
        case 4: return 0xF534DDC0u;
        case 5: return 0xDB629599u;
        case 6: return 0x3C439041u;
        case 7: return 0xFE5163ABu;
        case 8: return 0xDEBBC561u;
        default: return 0u;
    }
}

// Of a positive number from 65536 on, with integers (Payne and Hanek).
WD_FUNCTION wd_quarters wd_reduce_large(float x) {
    const unsigned int bits = __float_as_uint(x);
    const unsigned long long mantissa = (bits & 0x7FFFFFu) | 0x800000u;
    const int first = static_cast<int>(bits >> 23) - 126 - 24 + 30;  // the digit of 2/pi that becomes 2
    const int word = first >> 5, shift = first & 31;
    const unsigned long long digits[] = {wd_digits_of_two_over_pi(word), wd_digits_of_two_over_pi(word + 1),
                                         wd_digits_of_two_over_pi(word + 2), wd_digits_of_two_over_pi(word + 3)};
    const unsigned long long high = ((digits[0] << shift) | (digits[1] >> (32 - shift))) & 0xFFFFFFFFu;
    const unsigned long long middle = ((digits[1] << shift) | (digits[2] >> (32 - shift))) & 0xFFFFFFFFu;
    const unsigned long long low = ((digits[2] << shift) | (digits[3] >> (32 - shift))) & 0xFFFFFFFFu;
    const unsigned long long carry = mantissa * middle + ((mantissa * low) >> 32);
    // modulo 4, in units of 2^-62
    const unsigned long long quarters = ((mantissa * high + (carry >> 32)) << 32) | (carry & 0xFFFFFFFFu);
    const unsigned long long nearest = (quarters + (1ull << 61)) >> 62;
    const long long rest = static_cast<long long>(quarters - (nearest << 62));
    return {static_cast<int>(nearest), static_cast<float>(rest) * 0x1.921fb6p-62f};
}

// Of a number from 0 to 65536, with pi/2 in three parts (Cody and Waite).
WD_FUNCTION wd_quarters wd_reduce_moderate(float x) {
    const int nearest = static_cast<int>(fmaf(x, 0x1.45f306p-1f, 0.5f));
    const float count = static_cast<float>(nearest);
    const float rest = fmaf(-count, 0x1.921fb6p0f, x);
    return {nearest, fmaf(-count, -1.7151245100058819e-15f, fmaf(-count, -4.371138828673793e-08f, rest))};
}

// sin(count * pi / 2 + rest), with `rest` between -pi/4 and pi/4; the polynomials are those of Cephes.
WD_FUNCTION float wd_sine_of_quarters(int count, float rest) {
    const float z = rest * rest;
    float value;
    if (count & 1) {
        const float p = fmaf(fmaf(2.443315711809948e-5f, z, -1.388731625493765e-3f), z, 4.166664568298827e-2f);
        value = fmaf(p * z, z, fmaf(-0.5f, z, 1.0f));
    } else {
        const float p = fmaf(fmaf(-1.9515295891e-4f, z, 8.3321608736e-3f), z, -1.6666654611e-1f);
        value = fmaf(p * z, rest, rest);
    }
    return count & 2 ? -value : value;
}

// The sine of x with `turned` quarter turns, 0 or 1, added.
WD_FUNCTION float wd_turned_sine(float x, int turned) {
    const float size = fabsf(x);
    if (!(size < wd_infinity)) return x - x;  // infinity has none
    const wd_quarters quarters = size < 65536.0f ? wd_reduce_moderate(size) : wd_reduce_large(size);
    const float value = wd_sine_of_quarters(quarters.count + turned, quarters.rest);
    return turned ? value : copysignf(1.0f, x) * value;
}

// Sine, cosine and tangent of x in radians: what sinf, cosf, tanf and sincosf of authors are.
WD_FUNCTION float wd_sine(float x) { return wd_turned_sine(x, 0); }
WD_FUNCTION float wd_cosine(float x) { return wd_turned_sine(x, 1); }
WD_FUNCTION float wd_tangent(float x) { return wd_sine(x) / wd_cosine(x); }
WD_FUNCTION void wd_sine_and_cosine(float x, float *sine, float *cosine) {
    *sine = wd_sine(x);
    *cosine = wd_cosine(x);
}
