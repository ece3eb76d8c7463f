// What NVRTC has no header for. Functions of the C library are known to it without one.

#pragma once

#define INT_MAX 2147483647
#define INT_MIN (-INT_MAX - 1)
#define UINT_MAX 4294967295u
