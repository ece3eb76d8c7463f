// Functions and types of CUDA C that C++ lacks. CUDA's fast approximations, such as __sinf, are the accurate functions.

#pragma once

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <type_traits>

#define wd_infinity __builtin_inff()

struct int2 { int x, y; };
struct int3 { int x, y, z; };
struct int4 { int x, y, z, w; };
struct uint2 { unsigned int x, y; };
struct uint3 { unsigned int x, y, z; };
struct uint4 { unsigned int x, y, z, w; };
struct float2 { float x, y; };
struct float3 { float x, y, z; };
struct float4 { float x, y, z, w; };

static inline int2 make_int2(int x, int y) { return {x, y}; }
static inline int3 make_int3(int x, int y, int z) { return {x, y, z}; }
static inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
static inline uint2 make_uint2(unsigned int x, unsigned int y) { return {x, y}; }
static inline uint3 make_uint3(unsigned int x, unsigned int y, unsigned int z) { return {x, y, z}; }
static inline uint4 make_uint4(unsigned int x, unsigned int y, unsigned int z, unsigned int w) { return {x, y, z, w}; }
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float3 make_float3(float x, float y, float z) { return {x, y, z}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

// As on a GPU, the result of NaN and a number is the number.
template <class A, class B>
static inline typename std::common_type<A, B>::type min(A a, B b) {
    typedef typename std::common_type<A, B>::type T;
    if constexpr (std::is_floating_point<T>::value) return fmin(static_cast<T>(a), static_cast<T>(b));
    else return static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
}

template <class A, class B>
static inline typename std::common_type<A, B>::type max(A a, B b) {
    typedef typename std::common_type<A, B>::type T;
    if constexpr (std::is_floating_point<T>::value) return fmax(static_cast<T>(a), static_cast<T>(b));
    else return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a);
}

template <class To, class From>
static inline To wd_bit_cast(From value) {
    static_assert(sizeof(To) == sizeof(From), "the types have different sizes");
    To bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline int __float_as_int(float x) { return wd_bit_cast<int>(x); }
static inline unsigned int __float_as_uint(float x) { return wd_bit_cast<unsigned int>(x); }
static inline float __int_as_float(int x) { return wd_bit_cast<float>(x); }
static inline float __uint_as_float(unsigned int x) { return wd_bit_cast<float>(x); }

static inline int __popc(unsigned int x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned int>(x)); }
static inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x)); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned int __brev(unsigned int x) {
    unsigned int reversed = 0;
    for (int bit = 0; bit < 32; ++bit) reversed |= (x >> bit & 1u) << (31 - bit);
    return reversed;
}
static inline int __mulhi(int a, int b) { return static_cast<int>((static_cast<int64_t>(a) * b) >> 32); }
static inline unsigned int __umulhi(unsigned int a, unsigned int b) {
    return static_cast<unsigned int>((static_cast<uint64_t>(a) * b) >> 32);
}

static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fsqrt_rn(float a) { return sqrtf(a); }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
// Macros, because the C library has functions of these names.
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __expf(x) expf(x)
#define __logf(x) logf(x)
#define __powf(x, y) powf(x, y)
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __saturatef(float x) { return fminf(fmaxf(x, 0.0f), 1.0f); }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline float rsqrt(float x) { return rsqrtf(x); }

// As on a GPU, the conversion saturates, and NaN becomes 0; a cast in C++ would be undefined.
static inline int wd_saturated(float x) {
    if (x >= 2147483648.0f) return INT_MAX;
    if (x < -2147483648.0f) return INT_MIN;
    return x == x ? static_cast<int>(x) : 0;
}

static inline int __float2int_rz(float x) { return wd_saturated(x); }
static inline int __float2int_rn(float x) { return wd_saturated(rintf(x)); }
static inline int __float2int_rd(float x) { return wd_saturated(floorf(x)); }
static inline int __float2int_ru(float x) { return wd_saturated(ceilf(x)); }
static inline float __int2float_rn(int x) { return static_cast<float>(x); }

template <class T>
static inline T __ldg(const T *address) {
    return *address;
}
