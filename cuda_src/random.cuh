// Counter-based random numbers, bitwise equal to those of warpdrive.random: Philox4x32-10 (Salmon et al., "Parallel
// random numbers: as easy as 1, 2, 3", SC 2011).
//
// The state `rng` is an array [num_envs, num_agents, 4]: for each agent the low and high word of the seed, the global
// replica index, and the number of draws so far. Every function advances the agent's stream by one draw.

#pragma once

#include "polynomials.cuh"

// Return four random words for a counter of four words and a key of two.
WD_FUNCTION uint4 wd_philox4x32(unsigned int counter_0, unsigned int counter_1, unsigned int counter_2,
                                unsigned int counter_3, unsigned int key_0, unsigned int key_1) {
    for (int round = 0; round < 10; ++round) {
        const unsigned long long product_0 = 0xD2511F53ull * counter_0;
        const unsigned long long product_1 = 0xCD9E8D57ull * counter_2;
        counter_0 = static_cast<unsigned int>(product_1 >> 32) ^ counter_1 ^ key_0;
        counter_1 = static_cast<unsigned int>(product_1);
        counter_2 = static_cast<unsigned int>(product_0 >> 32) ^ counter_3 ^ key_1;
        counter_3 = static_cast<unsigned int>(product_0);
        key_0 += 0x9E3779B9u;
        key_1 += 0xBB67AE85u;
    }
    return {counter_0, counter_1, counter_2, counter_3};
}

// Return the next four words of a stream: the seed (two words), the replica, and the number of draws, incremented here.
WD_FUNCTION uint4 wd_draw_words(unsigned int *stream, unsigned int agent) {
    const unsigned int number = stream[3];
    stream[3] = number + 1;
    return wd_philox4x32(stream[2], agent, number, 0, stream[0], stream[1]);
}

// Convert the upper 24 bits of a word to a number in [0, 1).
WD_FUNCTION float wd_unit_interval(unsigned int word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

// Convert a word to an integer from 0 to n - 1.
WD_FUNCTION int wd_below(unsigned int word, int n) {
    return static_cast<int>((static_cast<unsigned long long>(word) * static_cast<unsigned long long>(n)) >> 32);
}

// Return four random words.
WD_FUNCTION uint4 wd_draw(unsigned int *rng, int env, int agent) {
    const long long first = (static_cast<long long>(env) * wd_num_agents() + agent) * 4;
    return wd_draw_words(rng + first, static_cast<unsigned int>(agent));
}

// Return a number uniform in [0, 1), a multiple of 2^-24.
WD_FUNCTION float wd_uniform(unsigned int *rng, int env, int agent) {
    return wd_unit_interval(wd_draw(rng, env, agent).x);
}

// Return four numbers of one draw (.x, .y, .z, .w), each uniform in [0, 1).
WD_FUNCTION float4 wd_four_uniforms(unsigned int *rng, int env, int agent) {
    const uint4 words = wd_draw(rng, env, agent);
    return {wd_unit_interval(words.x), wd_unit_interval(words.y), wd_unit_interval(words.z),
            wd_unit_interval(words.w)};
}

// Return a standard normal number (Box and Muller, 1958); its magnitude is at most 5.77.
WD_FUNCTION float wd_normal(unsigned int *rng, int env, int agent) {
    const uint4 words = wd_draw(rng, env, agent);
    const float radius = sqrtf(wd_minus_two_log(static_cast<float>((words.x >> 8) + 1) * 0x1p-24f));
    return fmaf(radius, wd_cosine_of_turns(wd_unit_interval(words.y)), 0.0f);
}

// Return an integer from 0 to n - 1, uniform to within n / 2^32.
WD_FUNCTION int wd_integer(unsigned int *rng, int env, int agent, int n) {
    return wd_below(wd_draw(rng, env, agent).x, n);
}

// Return an integer from 0 to n - 1 from the stream of a replica. `stream` is an array [num_envs, 4] like one agent's
// part of `rng`; it is keyed by an agent index that no replica has.
WD_FUNCTION int wd_replica_integer(unsigned int *stream, int env, int n) {
    return wd_below(wd_draw_words(stream + static_cast<long long>(env) * 4, 0xFFFFFFFFu).x, n);
}
