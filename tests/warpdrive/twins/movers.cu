// Actions of two by two numbers: as in test_rollout.py.

WD_KERNEL void move_step(float *position, const float *actions, float *observations, float *rewards) {
    const int env = wd_env(), agent = wd_agent();
    rewards[wd_index(rewards, env, agent)] = actions[wd_index(actions, env, agent, 0, 0)];
    for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < 2; ++j) {
            position[wd_index(position, env, agent, i, j)] += actions[wd_index(actions, env, agent, i, j)];
        }
    }
    observations[wd_index(observations, env, agent, 0)] = position[wd_index(position, env, agent, 1, 1)];
}
