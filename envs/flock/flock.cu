// Boids on a torus: the kernel functions of flock.py in CUDA C.

constexpr float PI = 3.14159265358979f;

// The angle from -pi to pi in the same direction, as envs/common/angles.py computes it.
WD_FUNCTION float wrapped(float angle) {
    const float turns = angle * 0.15915494309189535f;
    const float nearest = static_cast<float>(static_cast<int>(turns + (turns >= 0.0f ? 0.5f : -0.5f)));
    return (angle - nearest * 6.28125f) - nearest * 0.0019353071795864769f;
}

// The shortest way around the torus between two coordinates whose difference is given.
WD_FUNCTION float shortest(float difference, float world_size) {
    const float half = 0.5f * world_size;
    if (difference > half) return difference - world_size;
    return difference < -half ? difference + world_size : difference;
}

WD_FUNCTION float squared_distance_to(float dx, float dy, float world_size) {
    const float x = fabsf(dx), y = fabsf(dy);
    const float short_x = fminf(x, world_size - x), short_y = fminf(y, world_size - y);
    return short_x * short_x + short_y * short_y;
}

// Update the ids of the K nearest neighbours of a boid, from the nearest to the farthest.
//
// The former neighbours bound the distance of the farthest from the start: most boids are turned away by one
// comparison. The insertion has no branches and, once unrolled, no indexing: both lists live in registers. All threads
// of a warp read the same position.
template <int K>
WD_FUNCTION void find_neighbours(int *neighbours, const float *xs, const float *ys, int agent, int num_agents,
                                 float world_size) {
    const float x = xs[agent], y = ys[agent];
    int nearest[K];
    float distances[K], farthest = 0.0f;
#pragma unroll
    for (int k = 0; k < K; ++k) {
        const int former = neighbours[k];
        farthest = fmaxf(farthest, squared_distance_to(xs[former] - x, ys[former] - y, world_size));
        nearest[k] = agent;
        distances[k] = wd_infinity;
    }
    for (int other = 0; other < num_agents; ++other) {
        const float squared = squared_distance_to(xs[other] - x, ys[other] - y, world_size);
        if (squared > farthest || other == agent) continue;
        float distance_before = 0.0f;
        int nearest_before = other;
#pragma unroll
        for (int k = 0; k < K; ++k) {
            const float distance_here = distances[k];
            const int nearest_here = nearest[k];
            distances[k] = fminf(distance_here, fmaxf(distance_before, squared));
            const int moved_up = squared < distance_before ? nearest_before : other;
            nearest[k] = squared < distance_here ? moved_up : nearest_here;
            distance_before = distance_here;
            nearest_before = nearest_here;
        }
        farthest = fminf(farthest, distances[K - 1]);
    }
#pragma unroll
    for (int k = 0; k < K; ++k) neighbours[k] = nearest[k];
}

// Draw positions, directions and speeds.
WD_KERNEL void reset(float *loc_x, float *loc_y, float *direction, float *speed, int *neighbours, unsigned int *rng,
                     int num_agents, float world_size, float min_speed, float max_speed) {
    const int env = wd_env(), agent = wd_agent();
    const long long first = wd_index(loc_x, env), self = first + agent;
    const float4 drawn = wd_four_uniforms(rng, env, agent);
    loc_x[self] = drawn.x * world_size;
    loc_y[self] = drawn.y * world_size;
    direction[self] = (2.0f * drawn.z - 1.0f) * PI;
    speed[self] = min_speed + drawn.w * (max_speed - min_speed);
    wd_barrier();

    find_neighbours<wd_extent(neighbours, 2)>(&neighbours[wd_index(neighbours, env, agent)], &loc_x[first],
                                              &loc_y[first], agent, num_agents, world_size);
}

// Move all boids; then find the nearest neighbours of each, and compute its reward from them.
WD_KERNEL void step(float *loc_x, float *loc_y, float *direction, float *speed, int *neighbours, const float *actions,
                    float *rewards, int num_agents, float world_size, float max_turn, float max_acceleration,
                    float min_speed, float max_speed, float inverse_radius, float inverse_separation,
                    float cohesion_scale, float alignment_scale, float separation_scale) {
    constexpr int K = wd_extent(neighbours, 2);
    const int env = wd_env(), agent = wd_agent();
    const long long first = wd_index(loc_x, env), self = first + agent;
    const float *action = &actions[wd_index(actions, env, agent)];
    const float turn = fminf(fmaxf(action[0], -1.0f), 1.0f) * max_turn;
    const float acceleration = fminf(fmaxf(action[1], -1.0f), 1.0f) * max_acceleration;
    const float heading = wrapped(direction[self] + turn);
    const float pace = fminf(fmaxf(speed[self] + acceleration, min_speed), max_speed);
    float x = loc_x[self] + pace * wd_cos(heading);
    float y = loc_y[self] + pace * wd_sin(heading);
    if (x < 0.0f) x += world_size;
    if (y < 0.0f) y += world_size;
    if (x >= world_size) x -= world_size;
    if (y >= world_size) y -= world_size;
    loc_x[self] = x;
    loc_y[self] = y;
    direction[self] = heading;
    speed[self] = pace;
    wd_barrier();

    int *near = &neighbours[wd_index(neighbours, env, agent)];
    find_neighbours<K>(near, &loc_x[first], &loc_y[first], agent, num_agents, world_size);
    float cohesion = 0.0f, alignment = 0.0f, separation = 0.0f;
    for (int k = 0; k < K; ++k) {
        const long long other = first + near[k];
        const float dx = shortest(loc_x[other] - loc_x[self], world_size);
        const float dy = shortest(loc_y[other] - loc_y[self], world_size);
        const float distance = wd_sqrt(dx * dx + dy * dy);
        const float crowding = fmaxf(1.0f - distance * inverse_separation, 0.0f);
        cohesion += fmaxf(1.0f - distance * inverse_radius, 0.0f);
        alignment += wd_cos(direction[other] - direction[self]);
        separation += crowding * crowding;
    }
    rewards[self] = cohesion_scale * cohesion + alignment_scale * alignment - separation_scale * separation;
}

// Write offset and relative velocity of each neighbour in the frame of the boid, and its own speed.
WD_KERNEL void observe(const float *loc_x, const float *loc_y, const float *direction, const float *speed,
                       const int *neighbours, float *observations, float world_size, float radius,
                       float inverse_max_speed) {
    constexpr int K = wd_extent(neighbours, 2);
    const int env = wd_env(), agent = wd_agent();
    const long long first = wd_index(loc_x, env), self = first + agent;
    const float heading = direction[self], pace = speed[self];
    const float cosine = wd_cos(heading), sine = wd_sin(heading);
    float *seen = &observations[wd_index(observations, env, agent)];
    for (int k = 0; k < K; ++k) {
        const long long other = first + neighbours[wd_index(neighbours, env, agent, k)];
        const float dx = shortest(loc_x[other] - loc_x[self], world_size);
        const float dy = shortest(loc_y[other] - loc_y[self], world_size);
        const float scale = 1.0f / fmaxf(wd_sqrt(dx * dx + dy * dy), radius);
        const float turn = direction[other] - heading;
        seen[4 * k] = (dx * cosine + dy * sine) * scale;
        seen[4 * k + 1] = (dy * cosine - dx * sine) * scale;
        seen[4 * k + 2] = (speed[other] * wd_cos(turn) - pace) * inverse_max_speed;
        seen[4 * k + 3] = speed[other] * wd_sin(turn) * inverse_max_speed;
    }
    seen[4 * K] = pace * inverse_max_speed;
}
