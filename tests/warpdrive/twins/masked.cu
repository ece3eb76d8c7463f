// Actions that are allowed in turns: as in test_rollout.py.

WD_KERNEL void masked_step(int *level, const int *actions, float *rewards, bool *action_mask, const int *timestep) {
    const int env = wd_env(), agent = wd_agent();
    level[wd_index(level, env, agent)] = actions[wd_index(actions, env, agent, 0)];
    for (int choice = 0; choice < 5; ++choice) {
        action_mask[wd_index(action_mask, env, agent, choice)] =
            choice == timestep[env] % 3 || choice == 3 + timestep[env] % 2;
    }
    rewards[wd_index(rewards, env, agent)] = 0.0f;
}
