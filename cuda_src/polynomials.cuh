// Logarithm and cosine, bitwise reproducible across backends. See warpdrive/polynomials.py.

#pragma once

// Return -2 log(x) for x from 2^-24 to 1.
WD_FUNCTION float wd_minus_two_log(float x) {
    float exponent = 0.0f;
    if (x < 0x1.6a09e6p-12f) x *= 0x1p12f, exponent -= 12.0f;
    if (x < 0x1.6a09e6p-6f) x *= 0x1p6f, exponent -= 6.0f;
    if (x < 0x1.6a09e6p-3f) x *= 0x1p3f, exponent -= 3.0f;
    if (x < 0x1.6a09e6p-2f) x *= 0x1p2f, exponent -= 2.0f;
    if (x < 0x1.6a09e6p-1f) x *= 0x1p1f, exponent -= 1.0f;
    const float f = x - 1.0f;
    float q = fmaf(0x1.38519p-3f, f, -0x1.087db4p-2f);
    q = fmaf(q, f, 0x1.0f4cacp-2f);
    q = fmaf(q, f, -0x1.226b32p-2f);
    q = fmaf(q, f, 0x1.542422p-2f);
    q = fmaf(q, f, -0x1.99a428p-2f);
    q = fmaf(q, f, 0x1.000438p-1f);
    q = fmaf(q, f, -0x1.55555p-1f);
    q = fmaf(q, f, 0x1.fffff8p-1f);
    return fmaf(exponent, -0x1.62e43p0f, fmaf(f * f, q, -2.0f * f));
}

// Return cos(2 pi turns) for a multiple of 2^-24 from 0 to 1.
WD_FUNCTION float wd_cosine_of_turns(float turns) {
    const float y = fabsf(turns - 0.5f) - 0.25f;
    const float s = y * y;
    float p = fmaf(0x1.3dceeap5f, s, -0x1.324eep6f);
    p = fmaf(p, s, 0x1.4668c6p6f);
    p = fmaf(p, s, -0x1.4abbc2p5f);
    p = fmaf(p, s, -0x1.bf247ep-23f);
    return fmaf(0x1.921fb6p2f, y, p * y);
}
