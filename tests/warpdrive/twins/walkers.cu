// Walkers on a ring: the kernel functions of conftest.py and of tests that change them.

WD_KERNEL void walk(int *position, int *visits, bool *active, const int *actions, float *rewards, bool *terminated,
                    int ring_length, float bonus, const float *table) {
    const int env = wd_env(), agent = wd_agent();
    int &here = position[wd_index(position, env, agent)];
    here = (here + actions[wd_index(actions, env, agent)] - 1 + ring_length) % ring_length;
    visits[wd_index(visits, env, agent)] += 1;
    rewards[wd_index(rewards, env, agent)] = table[here] + bonus;
    wd_barrier();
    if (agent == 0 && here == position[wd_index(position, env, 1)]) terminated[env] = true;
    if (here == 0) active[wd_index(active, env, agent)] = false;
}

WD_KERNEL void look(const int *position, float *observations, const int *timestep, int ring_length, int num_agents) {
    const int env = wd_env(), agent = wd_agent();
    for (int other = 0; other < num_agents; ++other) {
        observations[wd_index(observations, env, agent, other)] =
            static_cast<float>(position[wd_index(position, env, other)]) / static_cast<float>(ring_length);
    }
    observations[wd_index(observations, env, agent, num_agents)] = static_cast<float>(timestep[env]);
}

WD_KERNEL void random_start(int *position, unsigned int *rng, int ring_length) {
    const int env = wd_env(), agent = wd_agent();
    position[wd_index(position, env, agent)] = wd_integer(rng, env, agent, ring_length);
}

WD_KERNEL void start_near_the_end(int *timestep, int episode_length, const int *length) {
    if (wd_agent() == 0) timestep[wd_env()] = episode_length - length[0];
}
