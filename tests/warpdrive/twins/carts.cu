// Carts of other masses in each replica: as in test_per_replica.py.

WD_KERNEL void push(float *speed, const float *actions, float *rewards, const float *mass, const int *grip,
                    const float *table) {
    const int env = wd_env(), agent = wd_agent();
    speed[wd_index(speed, env, agent)] += actions[wd_index(actions, env, agent, 0)] / mass[wd_index(mass, env)];
    rewards[wd_index(rewards, env, agent)] =
        static_cast<float>(grip[wd_index(grip, env, agent)]) + table[wd_index(table, agent)];
}

WD_KERNEL void feel(const float *speed, float *observations, const float *mass) {
    const int env = wd_env(), agent = wd_agent();
    observations[wd_index(observations, env, agent, 0)] = speed[wd_index(speed, env, agent)];
    observations[wd_index(observations, env, agent, 1)] = mass[wd_index(mass, env)];
}

WD_KERNEL void push_and_wear(float *speed, const float *actions, float *rewards, float *mass) {
    mass[wd_index(mass, wd_env())] *= 0.5f;
}
