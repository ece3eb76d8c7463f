// Functions of float, bitwise reproducible across backends and without double. See warpdrive/math.py, also for their
// accuracy.

#pragma once

#define WD_ROUNDING 0x1.8p23f  // added to a number below 2^22, it rounds it to an integer

// Nearest multiple of pi/2, modulo 4, and the remainder in two parts.
struct wd_quarters {
    int nearest;
    float r, tail;
};

// Number as an unevaluated sum of two floats.
struct wd_two_parts {
    float value, tail;
};

// Mantissa between the square roots of 1/2 and 2, and exponent.
struct wd_scaled {
    float mantissa, n;
};

WD_FUNCTION float wd_with_sign_of(float size, float x) {
    return __int_as_float(__float_as_int(size) | (__float_as_int(x) & 0x80000000));
}

WD_FUNCTION float wd_times_power_of_two(float value, int n) {
    const int first = n >> 1;
    const int low = (first + 127) << 23, high = (n - first + 127) << 23;
    return value * __int_as_float(low) * __int_as_float(high);
}

WD_FUNCTION wd_quarters wd_quarters_of_huge(float x) {
    typedef unsigned long long word;
    const int bits = __float_as_int(x) & 0x7FFFFFFF;
    const word mantissa = (bits & 0x7FFFFF) | 0x800000;
    const int first = (bits >> 23) - 144;
    const bool is_late = first >= 64;
    const word word_0 = is_late ? 0x29FC2757D1F534DDull : 0x00A2F9836E4E4415ull;
    const word word_1 = is_late ? 0xC0DB6295993C4390ull : 0x29FC2757D1F534DDull;
    const word word_2 = is_late ? 0x41FE5163ABDEBBC5ull : 0xC0DB6295993C4390ull;
    const int shift = first & 63, back = shift ^ 63;
    const word high = (word_0 << shift) | ((word_1 >> 1) >> back);
    const word low = (word_1 << shift) | ((word_2 >> 1) >> back);
    const word quarters = mantissa * high + ((mantissa * (low >> 32)) >> 32);  // modulo 4, in units of 2^-62
    const int nearest = static_cast<int>(((quarters >> 61) + 1) >> 1);
    const long long rest = static_cast<long long>(quarters << 2);
    const long long size = rest < 0 ? -rest : rest;
    const float coarse = static_cast<float>(static_cast<int>(size >> 40)) * 0x1p-24f;
    const float fine = static_cast<float>(static_cast<int>((size >> 16) & 0xFFFFFF)) * 0x1p-48f;
    const float finest = static_cast<float>(static_cast<int>(size & 0xFFFF)) * 0x1p-64f;
    const float count = coarse + fine, rest_of_count = (fine - (count - coarse)) + finest;
    const float product = count * 0x1.921fb6p0f;
    float tail = fmaf(count, -0x1.777a5cp-25f, fmaf(count, 0x1.921fb6p0f, -product));
    tail = fmaf(rest_of_count, 0x1.921fb6p0f, tail);
    const float r = product + tail;
    tail = tail - (r - product);
    const bool is_negative = x < 0.0f, is_back = (rest < 0) != is_negative;
    return {is_negative ? -nearest : nearest, is_back ? -r : r, is_back ? -tail : tail};
}

WD_FUNCTION wd_quarters wd_quarters_of(float x) {
    if (fabsf(x) >= 0x1p17f) return wd_quarters_of_huge(x);
    const float rounded = fmaf(x, 0x1.45f306p-1f, WD_ROUNDING);
    const float count = rounded - WD_ROUNDING;
    const float rest = fmaf(-count, 0x1.921fb6p0f, x);
    const float product = count * -0x1.777a5cp-25f;
    const float error = fmaf(count, -0x1.777a5cp-25f, -product);
    const float r = rest - product;
    return {__float_as_int(rounded), r, ((rest - r) - product) - fmaf(count, -0x1.ee59dap-50f, error)};
}

WD_FUNCTION wd_two_parts wd_sine_of_rest(float r, float tail) {
    const float z = r * r;
    const float p = fmaf(fmaf(-0x1.9951eep-13f, z, 0x1.110774p-7f), z, -0x1.555546p-3f);
    return {r, fmaf(r * z, p, tail * fmaf(-0.5f, z, 1.0f))};
}

WD_FUNCTION wd_two_parts wd_cosine_of_rest(float r, float tail) {
    const float z = r * r;
    const float half = 0.5f * r;
    const float first = fmaf(-half, r, 1.0f);
    const float error = fmaf(-half, r, 1.0f - first);
    const float p = fmaf(fmaf(0x1.99e80cp-16f, z, -0x1.6c0c28p-10f), z, 0x1.55554ap-5f);
    return {first, fmaf(z * z, p, fmaf(-tail, r, error))};
}

WD_FUNCTION float wd_sine_after(int quarters, float r, float tail) {
    const wd_two_parts sine = wd_sine_of_rest(r, tail), cosine = wd_cosine_of_rest(r, tail);
    const float value = quarters & 1 ? cosine.value + cosine.tail : sine.value + sine.tail;
    return quarters & 2 ? -value : value;
}

WD_FUNCTION float wd_sin(float x) {
    const wd_quarters quarters = wd_quarters_of(x);
    float value = wd_sine_after(quarters.nearest, quarters.r, quarters.tail);
    value = fabsf(x) < 0x1p-12f ? x : value;
    return fabsf(x) < wd_infinity ? value : x - x;
}

WD_FUNCTION float wd_cos(float x) {
    const wd_quarters quarters = wd_quarters_of(x);
    const float value = wd_sine_after(quarters.nearest + 1, quarters.r, quarters.tail);
    return fabsf(x) < wd_infinity ? value : x - x;
}

WD_FUNCTION void wd_sincos(float x, float *sine, float *cosine) {
    *sine = wd_sin(x);
    *cosine = wd_cos(x);
}

WD_FUNCTION float wd_tan(float x) {
    const wd_quarters quarters = wd_quarters_of(x);
    const wd_two_parts sine = wd_sine_of_rest(quarters.r, quarters.tail);
    const wd_two_parts cosine = wd_cosine_of_rest(quarters.r, quarters.tail);
    const float s = sine.value + sine.tail, s_tail = sine.tail - (s - sine.value);
    const float c = cosine.value + cosine.tail, c_tail = cosine.tail - (c - cosine.value);
    const bool is_odd = quarters.nearest & 1;
    const float a = is_odd ? c : s, a_tail = is_odd ? c_tail : s_tail;
    const float b = is_odd ? -s : c, b_tail = is_odd ? -s_tail : c_tail;
    const float inverse = 1.0f / b;
    float value = a * inverse;
    const float rest = fmaf(-value, b, a) + fmaf(-value, b_tail, a_tail);
    value = fmaf(rest, inverse, value);
    value = fabsf(x) < 0x1p-12f ? x : value;
    return fabsf(x) < wd_infinity ? value : x - x;
}

WD_FUNCTION wd_two_parts wd_exp_minus_one(float r, float tail) {
    float p = fmaf(0x1.6a48fcp-10f, r, 0x1.12399cp-7f);
    p = fmaf(p, r, 0x1.5558b4p-5f);
    p = fmaf(p, r, 0x1.555492p-3f);
    p = fmaf(p, r, 0x1.fffffcp-2f);
    return {r, fmaf(r * r, p, tail)};
}

WD_FUNCTION int wd_as_integer(float rounded) { return __float_as_int(rounded) - __float_as_int(WD_ROUNDING); }

WD_FUNCTION float wd_exp(float x) {
    x = x > 89.0f ? 89.0f : x;
    x = x < -104.0f ? -104.0f : x;
    const float rounded = fmaf(x, 0x1.715476p0f, WD_ROUNDING);
    const float n = rounded - WD_ROUNDING;
    const float rest = fmaf(-n, 0x1.62e4p-1f, x);
    const float r = fmaf(-n, 0x1.7f7d1cp-20f, rest);
    const wd_two_parts p = wd_exp_minus_one(r, fmaf(-n, 0x1.7f7d1cp-20f, rest - r));
    return wd_times_power_of_two(1.0f + (p.value + p.tail), wd_as_integer(rounded));
}

WD_FUNCTION wd_scaled wd_mantissa_and_exponent(float x) {
    const bool is_small = x < 0x1p-126f;
    const unsigned int bits = __float_as_uint(is_small ? x * 0x1p23f : x);
    const int n = static_cast<int>(bits - 0x3F3504F3u) >> 23;
    const float mantissa = __uint_as_float(bits - (static_cast<unsigned int>(n) << 23));
    return {mantissa, static_cast<float>(is_small ? n - 23 : n)};
}

WD_FUNCTION float wd_log(float x) {
    const wd_scaled scaled = wd_mantissa_and_exponent(x);
    const float n = scaled.n, f = scaled.mantissa - 1.0f;
    float q = fmaf(-0x1.385184p-4f, f, 0x1.087d96p-3f);
    q = fmaf(q, f, -0x1.0f4caap-3f);
    q = fmaf(q, f, 0x1.226b32p-3f);
    q = fmaf(q, f, -0x1.542422p-3f);
    q = fmaf(q, f, 0x1.99a428p-3f);
    q = fmaf(q, f, -0x1.000438p-2f);
    q = fmaf(q, f, 0x1.55555p-2f);
    q = fmaf(q, f, -0x1.fffff8p-2f);
    const float product = n * 0x1.62e4p-1f;
    const float high = product + f;
    const float low = fmaf(n, 0x1.7f7d1cp-20f, f - (high - product));
    float value = high + fmaf(f * f, q, low);
    value = x < wd_infinity ? value : x;
    value = x == 0.0f ? -wd_infinity : value;
    return x < 0.0f ? wd_infinity - wd_infinity : value;
}

WD_FUNCTION float wd_tanh(float x) {
    float twice = 2.0f * fabsf(x);
    twice = twice > 20.0f ? 20.0f : twice;
    const float rounded = fmaf(twice, 0x1.715476p0f, WD_ROUNDING);
    const float n = rounded - WD_ROUNDING;
    float rest = fmaf(-n, 0x1.62e4p-1f, twice);
    const float r = fmaf(-n, 0x1.7f7d1cp-20f, rest);
    const wd_two_parts sum = wd_exp_minus_one(r, fmaf(-n, 0x1.7f7d1cp-20f, rest - r));
    const float p = sum.value + sum.tail, p_tail = sum.tail - (p - sum.value);
    const float power = wd_times_power_of_two(1.0f, wd_as_integer(rounded));
    const float less = power - 1.0f, more = power + 1.0f;
    const float a = fmaf(power, p, less);
    const float a_tail = fmaf(power, p_tail, fmaf(power, p, less - a));
    const float b = fmaf(power, p, more);
    const float b_tail = fmaf(power, p_tail, fmaf(power, p, more - b));
    const float inverse = 1.0f / b;
    float value = a * inverse;
    rest = fmaf(-value, b, a) + fmaf(-value, b_tail, a_tail);
    value = fmaf(rest, inverse, value);
    value = twice > 8.0f ? fmaf(-2.0f, inverse, 1.0f) : value;
    value = wd_with_sign_of(value, x);
    return fabsf(x) < 0x1p-12f ? x : value;
}

WD_FUNCTION float wd_sqrt(float x) { return sqrtf(x); }

WD_FUNCTION float wd_rsqrt(float x) {
    const float value = 1.0f / sqrtf(x);
    const float product = x * value;
    const float error = fmaf(-product, value, 1.0f) - fmaf(x, value, -product) * value;
    const float better = fmaf(0.5f * value, error, value);
    return x > 0.0f && x < wd_infinity ? better : value;
}

WD_FUNCTION wd_two_parts wd_log_in_two_parts(float x) {
    const wd_scaled scaled = wd_mantissa_and_exponent(x);
    const float n = scaled.n, f = scaled.mantissa - 1.0f;
    const float total = 2.0f + f, total_tail = f - (total - 2.0f);
    const float inverse = 1.0f / total;
    const float s = f * inverse;
    const float s_tail = (fmaf(-s, total, f) - s * total_tail) * inverse;
    const float z = s * s, z_tail = fmaf(2.0f * s, s_tail, fmaf(s, s, -z));
    const float g = z * fmaf(fmaf(0x1.dfa302p-3f, z, 0x1.24527ap-2f), z, 0x1.999ap-2f);
    const float factor = 0x1.555556p-1f + g;
    const float factor_tail = (g - (factor - 0x1.555556p-1f)) + -0x1.555556p-26f;
    const float cube = s * z, cube_tail = fmaf(s, z, -cube) + fmaf(s, z_tail, s_tail * z);
    const float v = cube * factor;
    const float v_tail = fmaf(cube, factor, -v) + fmaf(cube, factor_tail, cube_tail * factor);
    const float product = n * 0x1.62e4p-1f;
    const float twice = 2.0f * s;
    const float high = product + twice;
    const float error = twice - (high - product);
    const float value = high + v;
    const float rest = fmaf(2.0f, s_tail, fmaf(n, 0x1.7f7d1cp-20f, v_tail));
    return {value, (v - (value - high)) + (error + rest)};
}

WD_FUNCTION float wd_pow(float x, float y) {
    const float size = fabsf(x);
    const wd_two_parts logarithm = wd_log_in_two_parts(size);
    float product = y * logarithm.value;
    float tail = fmaf(y, logarithm.value, -product) + y * logarithm.tail;
    tail = product < 89.0f && product > -104.0f ? tail : 0.0f;
    product = product > 89.0f ? 89.0f : product;
    product = product < -104.0f ? -104.0f : product;
    const float rounded = fmaf(product, 0x1.715476p0f, WD_ROUNDING);
    const float n = rounded - WD_ROUNDING;
    const float rest = fmaf(-n, 0x1.62e4p-1f, product);
    const float total = rest + tail;
    const float total_tail = tail - (total - rest);
    const float r = fmaf(-n, 0x1.7f7d1cp-20f, total);
    const wd_two_parts p = wd_exp_minus_one(r, fmaf(-n, 0x1.7f7d1cp-20f, total - r) + total_tail);
    float value = wd_times_power_of_two(1.0f + (p.value + p.tail), wd_as_integer(rounded));

    value = size == 0.0f ? (y > 0.0f ? 0.0f : wd_infinity) : value;
    value = size == wd_infinity ? (y > 0.0f ? wd_infinity : 0.0f) : value;
    value = size == 1.0f ? 1.0f : value;
    const float half = 0.5f * y;
    const bool is_whole = floorf(y) == y, is_odd = is_whole && floorf(half) != half;
    value = __float_as_int(x) < 0 && is_odd ? -value : value;
    value = x < 0.0f && x > -wd_infinity && !is_whole ? wd_infinity - wd_infinity : value;
    value = x == x && y == y ? value : x + y;
    return y == 0.0f || x == 1.0f ? 1.0f : value;
}

WD_FUNCTION float wd_atan2(float y, float x) {
    const float size_x = fabsf(x), size_y = fabsf(y);
    const bool is_steep = size_y > size_x, is_left = __float_as_int(x) < 0;
    float farther = is_steep ? size_y : size_x, nearer = is_steep ? size_x : size_y;
    const float scale = farther > 0x1p80f ? 0x1p-64f : farther < 0x1p-80f ? 0x1p64f : 1.0f;
    nearer *= scale;
    farther *= scale;
    const bool is_diagonal = nearer >= 0.5f * farther && farther > 0.0f;
    const float sum = nearer + farther;
    const float numerator = is_diagonal ? nearer - farther : nearer;
    const float denominator = is_diagonal ? sum : farther;
    const float tail = is_diagonal ? nearer - (sum - farther) : 0.0f;
    const bool is_plain = farther > 0.0f && farther < wd_infinity;
    float q = numerator / denominator;
    float rest = (fmaf(-q, denominator, numerator) - q * tail) / denominator;
    q = is_plain ? q : 0.0f;
    rest = is_plain ? rest : 0.0f;
    const float z = q * q;
    float p = fmaf(-0x1.a3d832p-5f, z, 0x1.9ffb48p-4f);
    p = fmaf(p, z, -0x1.2249bp-3f);
    p = fmaf(p, z, 0x1.997b06p-3f);
    p = fmaf(p, z, -0x1.555512p-2f);
    const float more = fmaf(q * z, p, fmaf(-rest, z, rest));
    const float sign = is_steep != is_left ? -1.0f : 1.0f;
    float eighths = is_steep ? 2.0f : is_left ? 4.0f : 0.0f;
    eighths = is_diagonal ? eighths + sign : eighths;
    const float base = eighths * 0x1.921fb6p-1f;
    const float base_tail = fmaf(eighths, -0x1.777a5cp-26f, fmaf(eighths, 0x1.921fb6p-1f, -base));
    q = sign * q;
    const float total = base + q;
    const float value = total + ((q - (total - base)) + fmaf(sign, more, base_tail));
    return x == x && y == y ? wd_with_sign_of(value, y) : x + y;
}
