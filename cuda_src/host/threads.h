// Threads on the host: what stands for a GPU where the same source is compiled by a C++ compiler.
//
// The threads of a replica run one after the other. One that waits at a barrier keeps its stack, and the next goes on
// upon another one; nobody switches stacks where nobody waits.

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

// This thread's replica.
WD_FUNCTION int wd_env() { return wd_this_fibre()->replica->env; }

// This thread's agent.
WD_FUNCTION int wd_agent() { return wd_this_fibre()->agent; }

// Wait for all threads of the replica; each of them must get here.
#define wd_barrier() wd_wait_at(__FILE__, __LINE__, 0)

// Wait, and return for how many threads of the replica a condition holds.
#define wd_barrier_count(condition) wd_wait_at(__FILE__, __LINE__, (condition) ? 1 : 0)

// An array `name` of `size` elements that the threads of a replica share: WD_SHARED(float, distances, 100);
#define WD_SHARED(type, name, size) static thread_local type name[size]

#include "atomics.h"
#include "mathematics.h"
