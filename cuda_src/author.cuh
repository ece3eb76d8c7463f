// Included right before the functions of authors: what CUDA C calls threads and blocks means agents and replicas there,
// however many replicas a block has in truth.

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

// Without double, which CUDA's own use for large angles: see math.cuh.
#define sinf(x) wd_sin(x)
#define cosf(x) wd_cos(x)
#define tanf(x) wd_tan(x)
#define sincosf(x, sine, cosine) wd_sincos(x, sine, cosine)
