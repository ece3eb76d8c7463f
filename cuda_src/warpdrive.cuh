// Device library for kernel functions in CUDA C. The generated fused step defines, before it includes this file,
//
//   WD_NUM_AGENTS          number of agents of a replica, which is its number of threads
//   WD_REPLICAS_PER_WARP   number of replicas that share a warp; 0 if each replica has a block for itself
//   WD_WARPS_PER_BLOCK     number of such warps in a block
//
// and, after it, wd_extents_of_x for each array parameter x of the author's functions. NVRTC compiles it for a GPU, any
// other compiler for the host.

#pragma once

#ifdef __CUDACC__
#include "gpu.cuh"
#else
#include "host/threads.h"
#endif

// Return the number of agents of a replica.
WD_FUNCTION constexpr int wd_num_agents() { return WD_NUM_AGENTS; }

// Authors need not include these.
#include <assert.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>

#include "indexing.cuh"
#include "math.cuh"
#include "random.cuh"
