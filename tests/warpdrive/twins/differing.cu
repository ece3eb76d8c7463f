// What differs from the Python of test_backends.py: every third step counts double, or does not.

WD_KERNEL void count_double(int *count, float *rewards, const int *actions, const int *timestep) {
    const int env = wd_env(), agent = wd_agent();
    count[wd_index(count, env, agent)] += timestep[env] % 3 == 0 ? 2 : 1;
    rewards[wd_index(rewards, env, agent)] = static_cast<float>(actions[wd_index(actions, env, agent)]);
}

WD_KERNEL void count_plain(int *count, float *rewards, const int *actions) {
    const int env = wd_env(), agent = wd_agent();
    count[wd_index(count, env, agent)] += 1;
    rewards[wd_index(rewards, env, agent)] = static_cast<float>(actions[wd_index(actions, env, agent)]);
}

WD_KERNEL void tell(const int *count, float *observations) {
    const int env = wd_env(), agent = wd_agent();
    observations[wd_index(observations, env, agent, 0)] = static_cast<float>(count[wd_index(count, env, agent)]);
}

WD_KERNEL void draw(int *count, unsigned int *rng, float *rewards, const int *actions) {
    const int env = wd_env(), agent = wd_agent();
    wd_integer(rng, env, agent, 40);  // which the Python version does not draw
    count[wd_index(count, env, agent)] = wd_integer(rng, env, agent, 40);
    rewards[wd_index(rewards, env, agent)] = static_cast<float>(actions[wd_index(actions, env, agent)]);
}
