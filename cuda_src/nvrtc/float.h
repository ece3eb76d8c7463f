// Replacement of a header that NVRTC lacks; it knows the functions of the C library without headers.

#pragma once

#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-07f
