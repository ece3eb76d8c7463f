// What authors draw, for test_random.py, and how they compute sines.

WD_KERNEL void philox(const unsigned int *counters, const unsigned int *keys, unsigned int *words) {
    const unsigned int *c = &counters[wd_index(counters, wd_env())], *k = &keys[wd_index(keys, wd_env())];
    const uint4 drawn = wd_philox4x32(c[0], c[1], c[2], c[3], k[0], k[1]);
    unsigned int *to = &words[wd_index(words, wd_env())];
    to[0] = drawn.x;
    to[1] = drawn.y;
    to[2] = drawn.z;
    to[3] = drawn.w;
}

WD_KERNEL void draw_all(unsigned int *rng, unsigned int *stream, float *floats, int *integers, int *of_replica, int n) {
    const int env = wd_env(), agent = wd_agent();
    for (int k = 0; k < wd_extent(floats, 2); ++k) {
        float *to = &floats[wd_index(floats, env, agent, k)];
        to[0] = wd_uniform(rng, env, agent);
        to[1] = wd_normal(rng, env, agent);
        const float4 four = wd_four_uniforms(rng, env, agent);
        to[2] = four.x;
        to[3] = four.y;
        to[4] = four.z;
        to[5] = four.w;
        integers[wd_index(integers, env, agent, k)] = wd_integer(rng, env, agent, n);
        if (agent == 0) of_replica[wd_index(of_replica, env, k)] = wd_replica_integer(stream, env, n);
    }
}

WD_KERNEL void sines(const float *x, float *out) {
    const int i = wd_env();
    float *to = &out[wd_index(out, i)];
    to[0] = sinf(x[i]);
    to[1] = cosf(x[i]);
    sincosf(x[i], &to[2], &to[3]);
    to[4] = tanf(x[i]);
}

WD_KERNEL void places(long long *out) {
    const int env = wd_env(), agent = wd_agent();
    for (int i = 0; i < wd_extent(out, 2); ++i) {
        for (int j = 0; j < wd_extent(out, 3); ++j) {
            out[wd_index(out, env, agent, i, j)] = 1000 * env + 100 * agent + 10 * i + j;
        }
        out[wd_index(out, env, agent, i)] = -1;  // where the numbers of i begin
    }
}
