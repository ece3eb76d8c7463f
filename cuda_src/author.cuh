// Included right before the author's functions, in which a thread is an agent and a block is a replica, however many
// replicas share a block of the GPU.

#pragma once

struct wd_dimensions {
    unsigned int x, y, z;
};

#define threadIdx (wd_dimensions{static_cast<unsigned int>(wd_agent()), 0u, 0u})
#define blockIdx (wd_dimensions{static_cast<unsigned int>(wd_env()), 0u, 0u})
#define blockDim (wd_dimensions{static_cast<unsigned int>(wd_num_agents()), 1u, 1u})
#define __syncthreads() wd_barrier()
#define __syncthreads_count(condition) wd_barrier_count(condition)
#define __syncthreads_or(condition) (wd_barrier_count(condition) > 0)
#define __syncthreads_and(condition) (wd_barrier_count(condition) == wd_num_agents())

// CUDA's versions use double for large angles; those of math.cuh do not.
#define sinf(x) wd_sin(x)
#define cosf(x) wd_cos(x)
#define tanf(x) wd_tan(x)
#define sincosf(x, sine, cosine) wd_sincos(x, sine, cosine)
