// Hunters chase a runner on a ring: the environment of tests, as in ring.py.

#define NOBODY (-1)

WD_FUNCTION int distance_on_ring(int a, int b, int ring_length) {
    const int apart = a > b ? a - b : b - a;
    return min(apart, ring_length - apart);
}

WD_KERNEL void step(int *position, const int *actions, float *rewards, bool *terminated, int *catches,
                    int ring_length, int num_hunters, float catch_reward) {
    const int env = wd_env(), agent = wd_agent();
    WD_SHARED(int, nearest, 1);
    int &here = position[wd_index(position, env, agent)];
    here = (here + actions[wd_index(actions, env, agent)] - 1 + ring_length) % ring_length;
    if (agent == 0) nearest[0] = ring_length;
    wd_barrier();

    const int runner = position[wd_index(position, env, num_hunters)];
    if (agent < num_hunters) atomicMin(&nearest[0], distance_on_ring(here, runner, ring_length));
    __syncthreads();

    const bool caught = nearest[0] == 0;
    if (agent == num_hunters) {
        terminated[env] = caught;
        rewards[wd_index(rewards, env, agent)] = caught ? -catch_reward : 0.0f;
        if (caught) catches[env] += 1;
    } else if (caught) {
        rewards[wd_index(rewards, env, agent)] = catch_reward;
    }
}

WD_KERNEL void observe(const int *position, float *observations, const float *angles, int num_agents) {
    const int env = blockIdx.x, agent = threadIdx.x;
    for (int other = 0; other < num_agents; ++other) {
        observations[wd_index(observations, env, agent, other)] =
            angles[position[wd_index(position, env, (agent + other) % num_agents)]];
    }
}

WD_KERNEL void reset(int *position, unsigned int *rng, int ring_length) {
    const int env = wd_env(), agent = wd_agent();
    position[wd_index(position, env, agent)] = wd_integer(rng, env, agent, ring_length);
}
