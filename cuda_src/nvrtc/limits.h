// Replacement of a header that NVRTC lacks; it knows the functions of the C library without headers.

#pragma once

#define INT_MAX 2147483647
#define INT_MIN (-INT_MAX - 1)
#define UINT_MAX 4294967295u
