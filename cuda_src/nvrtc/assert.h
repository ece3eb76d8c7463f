// What NVRTC has no header for. Functions of the C library are known to it without one.

#pragma once
