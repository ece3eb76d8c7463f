// Replacement of a header that NVRTC lacks; it knows the functions of the C library without headers.

#pragma once
