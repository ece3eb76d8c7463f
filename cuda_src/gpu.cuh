// Mapping of agents to the threads of a GPU. Small replicas share a warp, so that no warp is nearly empty; larger ones
// have a block each.

#pragma once

// Device function of the library or the author, called by kernel functions.
#define WD_FUNCTION static __device__ __forceinline__
#define WD_MEMBER __device__ __forceinline__

// Kernel function of an environment, executed by every thread of every replica.
#define WD_KERNEL static __device__

typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
#ifdef _WIN32
typedef long long int64_t;
typedef unsigned long long uint64_t;
#else
typedef long int64_t;
typedef unsigned long uint64_t;
#endif

#define wd_infinity __int_as_float(0x7f800000)

#if WD_REPLICAS_PER_WARP

// Return the index of this thread's replica among those that share the warp.
WD_FUNCTION int wd_place_in_warp() { return threadIdx.x % 32u / WD_NUM_AGENTS; }

// Return the index of this thread's replica among those that share the block.
WD_FUNCTION int wd_place_in_block() { return threadIdx.x / 32u * WD_REPLICAS_PER_WARP + wd_place_in_warp(); }

// Return the index of this thread's replica.
WD_FUNCTION int wd_env() { return blockIdx.x * (WD_WARPS_PER_BLOCK * WD_REPLICAS_PER_WARP) + wd_place_in_block(); }

// Return the index of this thread's agent.
WD_FUNCTION int wd_agent() { return threadIdx.x % 32u % WD_NUM_AGENTS; }

// Return true if this thread has an agent: a warp may have unused lanes, and the last block unused places.
WD_FUNCTION bool wd_is_live(int num_envs) { return wd_place_in_warp() < WD_REPLICAS_PER_WARP && wd_env() < num_envs; }

// Return the mask of the lanes of this thread's replica.
WD_FUNCTION unsigned int wd_lanes() {
    return (WD_NUM_AGENTS == 32 ? ~0u : (1u << WD_NUM_AGENTS % 32) - 1u) << wd_place_in_warp() * WD_NUM_AGENTS % 32;
}

// Synchronise the threads of the replica.
WD_FUNCTION void wd_wait() {
    if (WD_NUM_AGENTS > 1) __syncwarp(wd_lanes());
}

// Synchronise the threads of the replica, and return the number for which a condition is true.
WD_FUNCTION int wd_wait_count(int condition) {
    wd_wait();  // a vote does not order memory accesses
    return __popc(__ballot_sync(wd_lanes(), condition));
}

#define WD_REPLICAS_PER_BLOCK (WD_WARPS_PER_BLOCK * WD_REPLICAS_PER_WARP)

#else

WD_FUNCTION int wd_place_in_block() { return 0; }
WD_FUNCTION int wd_env() { return blockIdx.x; }
WD_FUNCTION int wd_agent() { return threadIdx.x; }
WD_FUNCTION bool wd_is_live(int num_envs) { return true; }
WD_FUNCTION void wd_wait() { __syncthreads(); }
WD_FUNCTION int wd_wait_count(int condition) { return __syncthreads_count(condition); }

#define WD_REPLICAS_PER_BLOCK 1

#endif

// Barrier of the threads of a replica; all of them must reach it.
#define wd_barrier() wd_wait()

// Barrier that returns the number of threads of the replica for which a condition is true.
#define wd_barrier_count(condition) wd_wait_count(condition)

// Declare an array `name` of `size` elements shared by the threads of a replica: WD_SHARED(float, distances, 100);
#define WD_SHARED(type, name, size)                                            \
    __shared__ type name##_of_all_replicas[WD_REPLICAS_PER_BLOCK * (size)];    \
    type *const name = name##_of_all_replicas + wd_place_in_block() * (size)
