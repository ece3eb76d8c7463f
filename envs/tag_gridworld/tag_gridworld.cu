// Taggers chase one runner on a grid: the kernel functions of tag_gridworld.py in CUDA C.

constexpr int LONGEST_GRID = 32767;

// Move every agent; once all have moved, the runner sees whether it is tagged, and all are rewarded.
WD_KERNEL void step(int *loc_x, int *loc_y, const int *actions, float *rewards, bool *terminated, const int *move_x,
                    const int *move_y, int grid_length, int num_taggers, float wall_hit_penalty,
                    float tag_reward_for_tagger, float tag_penalty_for_runner, float step_cost_for_tagger) {
    const int env = wd_env(), agent = wd_agent(), runner = num_taggers;
    int *all_x = &loc_x[wd_index(loc_x, env)], *all_y = &loc_y[wd_index(loc_y, env)];
    const int action = actions[wd_index(actions, env, agent)];
    float &reward = rewards[wd_index(rewards, env, agent)];

    const int x = all_x[agent] + move_x[action];
    const int y = all_y[agent] + move_y[action];
    all_x[agent] = min(max(x, 0), grid_length);
    all_y[agent] = min(max(y, 0), grid_length);
    if (all_x[agent] != x || all_y[agent] != y) reward -= wall_hit_penalty;
    wd_barrier();

    if (agent == runner) {
        bool tagged = false;
        for (int tagger = 0; tagger < num_taggers; ++tagger) {
            tagged |= all_x[tagger] == all_x[runner] && all_y[tagger] == all_y[runner];
        }
        terminated[env] = tagged;
    }
    wd_barrier();

    if (agent == runner) {
        reward += terminated[env] ? -tag_penalty_for_runner : step_cost_for_tagger;
    } else {
        reward += terminated[env] ? tag_reward_for_tagger : -step_cost_for_tagger;
    }
}

// Write observations [4 * num_agents + 1]: all x, all y, who is the runner, who is oneself, the time.
WD_KERNEL void observe_all(const int *loc_x, const int *loc_y, float *observations, const int *timestep,
                           int num_agents, int num_taggers, float location_scale, float time_scale) {
    const int env = wd_env(), agent = wd_agent(), runner = num_taggers;
    float *seen = &observations[wd_index(observations, env, agent)];
    for (int other = 0; other < num_agents; ++other) {
        seen[other] = static_cast<float>(loc_x[wd_index(loc_x, env, other)]) * location_scale;
        seen[num_agents + other] = static_cast<float>(loc_y[wd_index(loc_y, env, other)]) * location_scale;
        seen[2 * num_agents + other] = static_cast<float>(other == runner);
        seen[3 * num_agents + other] = static_cast<float>(other == agent);
    }
    seen[4 * num_agents] = static_cast<float>(timestep[env]) * time_scale;
}

// Write observations [6]: own x and y, the nearest opponent's, whether one is the runner, the time.
WD_KERNEL void observe_nearest(const int *loc_x, const int *loc_y, float *observations, const int *timestep,
                               int num_taggers, float location_scale, float time_scale) {
    const int env = wd_env(), agent = wd_agent(), runner = num_taggers;
    const int *all_x = &loc_x[wd_index(loc_x, env)], *all_y = &loc_y[wd_index(loc_y, env)];
    int opponent = runner;
    if (agent == runner) {
        int least = 2 * LONGEST_GRID * LONGEST_GRID + 1;
        for (int tagger = 0; tagger < num_taggers; ++tagger) {
            const int dx = all_x[tagger] - all_x[runner], dy = all_y[tagger] - all_y[runner];
            const int squared_distance = dx * dx + dy * dy;
            if (squared_distance < least) {
                least = squared_distance;
                opponent = tagger;
            }
        }
    }
    float *seen = &observations[wd_index(observations, env, agent)];
    seen[0] = static_cast<float>(all_x[agent]) * location_scale;
    seen[1] = static_cast<float>(all_y[agent]) * location_scale;
    seen[2] = static_cast<float>(all_x[opponent]) * location_scale;
    seen[3] = static_cast<float>(all_y[opponent]) * location_scale;
    seen[4] = static_cast<float>(agent == runner);
    seen[5] = static_cast<float>(timestep[env]) * time_scale;
}
