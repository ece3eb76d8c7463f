// Replacement of a header that NVRTC lacks; it knows the functions of the C library without headers.

#pragma once

#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_E 2.71828182845904523536
#define M_LN2 0.69314718055994530942
#define M_SQRT2 1.41421356237309504880
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fc00000)
