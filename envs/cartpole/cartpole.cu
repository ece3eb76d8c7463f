// A cart is pushed so that the pole on it stays up: the kernel functions of cartpole.py in CUDA C.

// Draw the start state, each number from [-start_range, start_range).
WD_KERNEL void reset(float *position, float *velocity, float *angle, float *angular_velocity, unsigned int *rng,
                     float start_range) {
    const int env = wd_env();
    const float4 drawn = wd_four_uniforms(rng, env, wd_agent());
    position[env] = (2.0f * drawn.x - 1.0f) * start_range;
    velocity[env] = (2.0f * drawn.y - 1.0f) * start_range;
    angle[env] = (2.0f * drawn.z - 1.0f) * start_range;
    angular_velocity[env] = (2.0f * drawn.w - 1.0f) * start_range;
}

// Push the cart and integrate by one step of Euler's method: positions move with the velocities from before.
WD_KERNEL void step(float *position, float *velocity, float *angle, float *angular_velocity, const int *actions,
                    float *rewards, bool *terminated, float gravity, float total_mass, float pole_mass,
                    float pole_half_length, float pole_moment, float push_force, float time_step,
                    float largest_position, float largest_angle) {
    const int env = wd_env(), agent = wd_agent();
    float x = position[env], v = velocity[env], theta = angle[env], omega = angular_velocity[env];
    const float force = actions[wd_index(actions, env, agent)] == 1 ? push_force : -push_force;

    const float sine = wd_sin(theta), cosine = wd_cos(theta);
    const float push = (force + pole_moment * omega * omega * sine) / total_mass;
    const float angular_acceleration =
        (gravity * sine - cosine * push) /
        (pole_half_length * (4.0f / 3.0f - pole_mass * cosine * cosine / total_mass));
    const float acceleration = push - pole_moment * angular_acceleration * cosine / total_mass;

    x += time_step * v;
    v += time_step * acceleration;
    theta += time_step * omega;
    omega += time_step * angular_acceleration;
    position[env] = x;
    velocity[env] = v;
    angle[env] = theta;
    angular_velocity[env] = omega;
    rewards[wd_index(rewards, env, agent)] = 1.0f;
    terminated[env] = fabsf(x) > largest_position || fabsf(theta) > largest_angle;
}

// Write observations [4]: the state, or zeros in place of velocities.
WD_KERNEL void observe(const float *position, const float *velocity, const float *angle,
                       const float *angular_velocity, float *observations, bool see_velocities) {
    const int env = wd_env();
    float *seen = &observations[wd_index(observations, env, wd_agent())];
    seen[0] = position[env];
    seen[1] = see_velocities ? velocity[env] : 0.0f;
    seen[2] = angle[env];
    seen[3] = see_velocities ? angular_velocity[env] : 0.0f;
}
