// What two tags see by key: as in test_dict_observations.py.

WD_KERNEL void move(int *place, const int *actions, float *rewards, int side) {
    const int env = wd_env(), agent = wd_agent();
    int &own = place[wd_index(place, env, agent)];
    own = (own + actions[wd_index(actions, env, agent)]) % (side * side);
    rewards[wd_index(rewards, env, agent)] = static_cast<float>(own);
}

WD_KERNEL void look_out(const int *place, unsigned char *observations_map, int *observations_heading,
                        float *observations_clock, const int *timestep, int side, int num_agents) {
    const int env = wd_env(), agent = wd_agent();
    for (int x = 0; x < side; ++x) {
        for (int y = 0; y < side; ++y) {
            observations_map[wd_index(observations_map, env, agent, 0, x, y)] = 0;
            observations_map[wd_index(observations_map, env, agent, 1, x, y)] = 0;
        }
    }
    for (int other = 0; other < num_agents; ++other) {
        const int channel = other == agent ? 0 : 1, there = place[wd_index(place, env, other)];
        observations_map[wd_index(observations_map, env, agent, channel, there / side, there % side)] += 100;
    }
    observations_heading[wd_index(observations_heading, env, agent)] = place[wd_index(place, env, agent)] % 4;
    observations_clock[wd_index(observations_clock, env, agent, 0)] = static_cast<float>(timestep[env]);
}
