// Taggers and runners on a continuous square: the kernel functions of tag_continuous.py in CUDA C.

constexpr float TWO_PI = 6.283185307f;

// The angle from 0 to 2 pi in the same direction.
WD_FUNCTION float within_a_turn(float angle) {
    const float rest = fmodf(angle, TWO_PI);
    return rest < 0.0f ? rest + TWO_PI : rest;
}

// Move every agent; once all have moved, let every runner in the game see whether it is tagged.
WD_KERNEL void step(float *loc_x, float *loc_y, float *speed, float *direction, float *acceleration, bool *in_game,
                    bool *active, int *runners_left, const int *actions, float *rewards, bool *terminated,
                    const int *timestep, const float *acceleration_table, const float *turn_table,
                    const float *top_speed, const float *step_reward, const bool *is_runner, const int *tagger_ids,
                    int num_taggers, float grid_length, int episode_length, float edge_hit_penalty,
                    float squared_tagging_distance, float tag_reward_for_tagger, float tag_penalty_for_runner,
                    float end_of_game_reward_for_runner, bool runner_exits_game_after_tagged) {
    const int env = wd_env(), agent = wd_agent();
    const long long self = wd_index(loc_x, env, agent);  // of every array with a number for each agent
    const bool playing = active[self];
    const float s = playing ? 1.0f : 0.0f;

    float new_acceleration = acceleration[self] + acceleration_table[actions[wd_index(actions, env, agent, 0)]];
    const float new_direction =
        within_a_turn(direction[self] + turn_table[actions[wd_index(actions, env, agent, 1)]]) * s;
    const float limit = top_speed[agent];
    const float new_speed = fminf(fmaxf(speed[self] + new_acceleration, 0.0f), limit) * s;
    if (new_speed <= 0.0f || new_speed >= limit) new_acceleration = 0.0f;
    const float x = loc_x[self] + new_speed * wd_cos(new_direction);
    const float y = loc_y[self] + new_speed * wd_sin(new_direction);
    const float inside_x = fminf(fmaxf(x, 0.0f), grid_length);
    const float inside_y = fminf(fmaxf(y, 0.0f), grid_length);
    float reward = step_reward[agent];
    if (inside_x != x || inside_y != y) reward += edge_hit_penalty;

    in_game[self] = playing;
    acceleration[self] = new_acceleration;
    direction[self] = new_direction;
    speed[self] = new_speed;
    loc_x[self] = inside_x;
    loc_y[self] = inside_y;
    rewards[self] = reward * s;
    wd_barrier();

    if (is_runner[agent] && playing) {
        int tagger = -1;
        float nearest = squared_tagging_distance;
        for (int i = 0; i < num_taggers; ++i) {
            const float dx = loc_x[wd_index(loc_x, env, tagger_ids[i])] - inside_x;
            const float dy = loc_y[wd_index(loc_y, env, tagger_ids[i])] - inside_y;
            const float squared_distance = dx * dx + dy * dy;
            if (squared_distance < nearest) {
                nearest = squared_distance;
                tagger = tagger_ids[i];
            }
        }
        if (tagger >= 0) {
            rewards[self] += tag_penalty_for_runner;
            atomicAdd(&rewards[wd_index(rewards, env, tagger)], tag_reward_for_tagger);
            if (runner_exits_game_after_tagged) {
                active[self] = false;
                atomicAdd(&runners_left[env], -1);
            }
        }
        if (active[self] && timestep[env] == episode_length) rewards[self] += end_of_game_reward_for_runner;
    }
    wd_barrier();

    if (agent == 0) terminated[env] = runners_left[env] == 0;
}

// Write observations [7 * (num_agents - 1) + 1]: seven blocks of the other agents in id order, and the time.
WD_KERNEL void observe_all(const float *loc_x, const float *loc_y, const float *speed, const float *direction,
                           const float *acceleration, const bool *in_game, const bool *is_runner,
                           float *observations, const int *timestep, int num_agents, float location_scale,
                           float speed_scale, float direction_scale, float time_scale) {
    const int env = wd_env(), agent = wd_agent(), block = num_agents - 1;
    const long long first = wd_index(loc_x, env), self = first + agent;
    float *seen = &observations[wd_index(observations, env, agent)];
    const float s = in_game[self] ? 1.0f : 0.0f;
    for (int i = 0; i < block; ++i) {
        const int other_agent = i >= agent ? i + 1 : i;
        const long long other = first + other_agent;
        seen[i] = (loc_x[other] - loc_x[self]) * location_scale * s;
        seen[block + i] = (loc_y[other] - loc_y[self]) * location_scale * s;
        seen[2 * block + i] = (speed[other] - speed[self]) * speed_scale * s;
        seen[3 * block + i] = (acceleration[other] - acceleration[self]) * speed_scale * s;
        seen[4 * block + i] = (direction[other] - direction[self]) * direction_scale * s;
        seen[5 * block + i] = is_runner[other_agent] ? 1.0f : 0.0f;
        seen[6 * block + i] = in_game[other] ? 1.0f : 0.0f;
    }
    seen[7 * block] = static_cast<float>(timestep[env]) * time_scale * s;
}

// Write observations [7 * K + 1]: seven blocks of the K nearest agents in the game, and the time.
//
// One pass over the agents keeps the K nearest so far in ascending order; most of the others are turned away by one
// comparison with the last of them. A place without a neighbour holds the agent itself, whose differences to itself are
// the zeros wanted there. K is known to the compiler as a part of the extent of the observations: the insertion has no
// branches and, once unrolled, no indexing, so that the two short lists live in registers.
WD_KERNEL void observe_nearest(const float *loc_x, const float *loc_y, const float *speed, const float *direction,
                               const float *acceleration, const bool *in_game, const bool *is_runner,
                               float *observations, const int *timestep, int num_agents, float location_scale,
                               float speed_scale, float direction_scale, float time_scale) {
    constexpr int K = (wd_extent(observations, 2) - 1) / 7;
    const int env = wd_env(), agent = wd_agent();
    const long long first = wd_index(loc_x, env), self = first + agent;
    const float x = loc_x[self], y = loc_y[self];
    int nearest[K];
    float squared_distance[K];
    for (int k = 0; k < K; ++k) {
        nearest[k] = agent;
        squared_distance[k] = wd_infinity;
    }
    if (in_game[self]) {
        for (int other = 0; other < num_agents; ++other) {
            const float dx = loc_x[first + other] - x, dy = loc_y[first + other] - y;
            const float candidate = dx * dx + dy * dy;
            if (candidate >= squared_distance[K - 1] || other == agent || !in_game[first + other]) continue;
            float distance_before = 0.0f;
            int nearest_before = other;
#pragma unroll
            for (int k = 0; k < K; ++k) {
                const float distance_here = squared_distance[k];
                const int nearest_here = nearest[k];
                squared_distance[k] = fminf(distance_here, fmaxf(distance_before, candidate));
                const int moved_up = candidate < distance_before ? nearest_before : other;
                nearest[k] = candidate < distance_here ? moved_up : nearest_here;
                distance_before = distance_here;
                nearest_before = nearest_here;
            }
        }
    }

    float *seen = &observations[wd_index(observations, env, agent)];
    for (int k = 0; k < K; ++k) {
        const long long other = first + nearest[k];
        const float found = squared_distance[k] < wd_infinity ? 1.0f : 0.0f;
        seen[k] = (loc_x[other] - x) * location_scale;
        seen[K + k] = (loc_y[other] - y) * location_scale;
        seen[2 * K + k] = (speed[other] - speed[self]) * speed_scale;
        seen[3 * K + k] = (acceleration[other] - acceleration[self]) * speed_scale;
        seen[4 * K + k] = (direction[other] - direction[self]) * direction_scale;
        seen[5 * K + k] = is_runner[nearest[k]] ? found : 0.0f;
        seen[6 * K + k] = found;
    }
    const float s = in_game[self] ? 1.0f : 0.0f;
    seen[7 * K] = static_cast<float>(timestep[env]) * time_scale * s;
}
