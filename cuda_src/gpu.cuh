// Threads on a GPU. Replicas of few agents share a warp, so that no warp runs nearly empty; others have a block each.

#pragma once

// A function of the library, or of an author, that kernel functions call.
#define WD_FUNCTION static __device__ __forceinline__
#define WD_MEMBER __device__ __forceinline__

// A function of an environment: every thread of every replica runs it.
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

// Which of the replicas that share this warp.
WD_FUNCTION int wd_place_in_warp() { return threadIdx.x % 32u / WD_NUM_AGENTS; }

// Which of the replicas that share this block.
WD_FUNCTION int wd_place_in_block() { return threadIdx.x / 32u * WD_REPLICAS_PER_WARP + wd_place_in_warp(); }

// This thread's replica.
WD_FUNCTION int wd_env() { return blockIdx.x * (WD_WARPS_PER_BLOCK * WD_REPLICAS_PER_WARP) + wd_place_in_block(); }

// This thread's agent.
WD_FUNCTION int wd_agent() { return threadIdx.x % 32u % WD_NUM_AGENTS; }

// Whether this thread is one of a replica's: a warp has lanes left over, the last block more.
WD_FUNCTION bool wd_is_live(int num_envs) { return wd_place_in_warp() < WD_REPLICAS_PER_WARP && wd_env() < num_envs; }

// The lanes of this thread's replica, a bit each.
WD_FUNCTION unsigned int wd_lanes() {
    return (WD_NUM_AGENTS == 32 ? ~0u : (1u << WD_NUM_AGENTS % 32) - 1u) << wd_place_in_warp() * WD_NUM_AGENTS % 32;
}

// Wait for all threads of the replica.
WD_FUNCTION void wd_wait() {
    if (WD_NUM_AGENTS > 1) __syncwarp(wd_lanes());
}

// Wait, and return for how many threads of the replica a condition holds.
WD_FUNCTION int wd_wait_count(int condition) {
    wd_wait();  // a vote orders no memory
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

// Wait for all threads of the replica; each of them must get here.
#define wd_barrier() wd_wait()

// Wait, and return for how many threads of the replica a condition holds.
#define wd_barrier_count(condition) wd_wait_count(condition)

// An array `name` of `size` elements that the threads of a replica share: WD_SHARED(float, distances, 100);
#define WD_SHARED(type, name, size)                                            \
    __shared__ type name##_of_all_replicas[WD_REPLICAS_PER_BLOCK * (size)];    \
    type *const name = name##_of_all_replicas + wd_place_in_block() * (size)
