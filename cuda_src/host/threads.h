// Emulation of a GPU's threads on the host, where a C++ compiler compiles the same source.
//
// The threads of a replica run one after the other. A thread that waits at a barrier keeps its stack, and the next one
// continues on another; if no thread waits, stacks are never switched.

#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "fibres.h"

#define WD_FUNCTION static inline
#define WD_MEMBER inline
#define WD_KERNEL static

#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __constant__ static const
#define __shared__ static thread_local

// Return the index of this thread's replica.
WD_FUNCTION int wd_env() { return wd_this_fibre()->replica->env; }

// Return the index of this thread's agent.
WD_FUNCTION int wd_agent() { return wd_this_fibre()->agent; }

// Barrier of the threads of a replica; all of them must reach it.
#define wd_barrier() wd_wait_at(__FILE__, __LINE__, 0)

// Barrier that returns the number of threads of the replica for which a condition is true.
#define wd_barrier_count(condition) wd_wait_at(__FILE__, __LINE__, (condition) ? 1 : 0)

// Declare an array `name` of `size` elements shared by the threads of a replica: WD_SHARED(float, distances, 100);
#define WD_SHARED(type, name, size) static thread_local type name[size]

#include "atomics.h"
#include "mathematics.h"
