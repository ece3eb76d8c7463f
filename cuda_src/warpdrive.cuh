// What functions of environments in CUDA C are written with. The generated fused step includes it before them, with
//
//   WD_NUM_AGENTS          how many agents a replica has: its threads
//   WD_REPLICAS_PER_WARP   how many replicas share a warp; 0 where each has a block of its own
//   WD_WARPS_PER_BLOCK     how many such warps a block has
//
// and, for each array parameter x of theirs, wd_extents_of_x. Compiled by NVRTC it is for a GPU, else for the host.

#pragma once

#ifdef __CUDACC__
#include "gpu.cuh"
#else
#include "host/threads.h"
#endif

// How many agents a replica has.
WD_FUNCTION constexpr int wd_num_agents() { return WD_NUM_AGENTS; }

#include "indexing.cuh"
#include "math.cuh"
#include "random.cuh"
