// Two tags with spaces of their own: as in test_env_wrapper.py.

WD_KERNEL void step_by_tag(int *level, const int *actions_pusher, const int *actions_turner,
                           float *observations_pusher, float *observations_turner, float *rewards) {
    const int env = wd_env(), agent = wd_agent();
    int &own = level[wd_index(level, env, agent)];
    if (agent < 2) {
        own += actions_pusher[wd_index(actions_pusher, env, agent)];
        observations_pusher[wd_index(observations_pusher, env, agent, 0)] = static_cast<float>(own);
    } else {
        own += 10 * actions_turner[wd_index(actions_turner, env, agent - 2, 0)] +
               actions_turner[wd_index(actions_turner, env, agent - 2, 1)];
        for (int k = 0; k < 3; ++k) {
            observations_turner[wd_index(observations_turner, env, agent - 2, k)] =
                static_cast<float>(level[wd_index(level, env, k)]);
        }
    }
    rewards[wd_index(rewards, env, agent)] = static_cast<float>(own);
}
