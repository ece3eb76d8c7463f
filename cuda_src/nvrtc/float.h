// What NVRTC has no header for. Functions of the C library are known to it without one.

#pragma once

#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-07f
