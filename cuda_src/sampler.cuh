// Sampling of actions from the policy outputs. See warpdrive/sampler.py.

#pragma once

// Action and its log-probability.
struct wd_choice {
    int action;
    float log_probability;
};

#define WD_HIGHEST 3.4e38f  // replaces infinite logits, so that differences are finite

// Return an action and its log-probability under the softmax of logits[env, row, first : first + count]. `random` is
// uniform in [0, 1). If `greedy`, the most probable action (the first of equals) is taken. If some logits are +inf,
// these actions are equally probable; if all are -inf, all actions are. If a logit is NaN, the action with the highest
// other logit is taken, and the log-probability is NaN.
template <class Logits>
WD_FUNCTION wd_choice wd_choose(Logits logits, int env, int row, int first, int count, float random, bool greedy) {
    int best = 0;
    float highest = -wd_infinity;
    for (int action = 0; action < count; ++action) {
        const float logit = logits(env, row, first + action);
        if (logit > highest) {
            highest = logit;
            best = action;
        }
    }
    highest = fminf(fmaxf(highest, -WD_HIGHEST), WD_HIGHEST);
    float total = 0.0f;
    for (int action = 0; action < count; ++action) {
        const float below_highest = logits(env, row, first + action) - highest;
        total += wd_exp(below_highest > 0.0f ? 0.0f : below_highest);
    }
    const float threshold = random * total;
    float cumulative = 0.0f, of_chosen = 0.0f;
    int chosen = best;
    for (int action = 0; action < count; ++action) {
        float below_highest = logits(env, row, first + action) - highest;
        below_highest = below_highest > 0.0f ? 0.0f : below_highest;
        const float weight = wd_exp(below_highest);
        if (weight > 0.0f && cumulative <= threshold) chosen = action, of_chosen = below_highest;
        cumulative += weight;
    }
    if (total == 0.0f) {
        total = static_cast<float>(count);
        chosen = min(static_cast<int>(random * total), count - 1);
    }
    if (greedy) chosen = best, of_chosen = 0.0f;
    return {chosen, of_chosen - wd_log(total)};
}

// Copy an agent's logits; masked actions become -inf, allowed ones finite.
template <class Logits, class MaskedLogits, class ActionMask, class Rows>
WD_FUNCTION void wd_mask_logits(Logits logits, MaskedLogits masked_logits, ActionMask action_mask, Rows rows) {
    const int env = wd_env(), agent = wd_agent(), row = rows(agent);
    if (row < 0) return;
    for (int action = 0; action < logits.extent(2); ++action) {
        const float logit = logits(env, row, action);
        const float possible = logit > -WD_HIGHEST ? logit : -WD_HIGHEST;  // also for -inf and NaN
        masked_logits(env, row, action) = action_mask(env, agent, action) ? possible : -wd_infinity;
    }
}

// Sample the action of each agent that has a row of `logits` in `rows` (-1: none).
template <class Logits, class Actions, class LogProbability, class Greedy, class Rng, class Rows, class ActionRows>
WD_FUNCTION void wd_sample_discrete(Logits logits, Actions actions, LogProbability log_probability, Greedy greedy,
                                    Rng rng, Rows rows, ActionRows action_rows) {
    const int env = wd_env(), agent = wd_agent(), row = rows(agent);
    if (row < 0) return;
    const float random = wd_uniform(rng, env, agent);
    const wd_choice choice = wd_choose(logits, env, row, 0, logits.extent(2), random, greedy(0));
    actions(env, action_rows(agent)) = choice.action;
    log_probability(env, agent) = choice.log_probability;
}

// Sample an action of several independent components; their log-probabilities are summed.
template <class Logits, class Actions, class LogProbability, class Greedy, class Rng, class Rows, class ActionRows,
          class NumChoices>
WD_FUNCTION void wd_sample_multi_discrete(Logits logits, Actions actions, LogProbability log_probability, Greedy greedy,
                                          Rng rng, Rows rows, ActionRows action_rows, NumChoices num_choices) {
    const int env = wd_env(), agent = wd_agent(), row = rows(agent);
    if (row < 0) return;
    int first = 0;
    float total = 0.0f;
    for (int component = 0; component < num_choices.extent(0); ++component) {
        const float random = wd_uniform(rng, env, agent);
        const wd_choice choice = wd_choose(logits, env, row, first, num_choices(component), random, greedy(0));
        actions(env, action_rows(agent), component) = choice.action;
        total += choice.log_probability;
        first += num_choices(component);
    }
    log_probability(env, agent) = total;
}

// Sample continuous actions with independent, normally distributed components.
//
// logits[env, row] holds the means of all components, then the logarithms of their standard deviations. If that of a
// component is infinite (the initial value), it is uniform in its range [low, high], or standard normal if the range is
// not finite. `sampled` receives the samples, whose log-probability is recorded, and `actions`, which the environment
// reads, the samples clipped to the Box. With `normalize`, means and standard deviations of a component bounded on both
// sides are in units of half its range, relative to its centre. With `squash`, `actions` receives the hyperbolic
// tangent of the sample, scaled from [-1, 1] to the Box; the log-probability is then that of the scaled value.
template <class Logits, class Actions, class Sampled, class LogProbability, class Greedy, class Squash, class Normalize,
          class Rng, class Rows, class ActionRows, class Low, class High>
WD_FUNCTION void wd_sample_gaussian(Logits logits, Actions actions, Sampled sampled, LogProbability log_probability,
                                    Greedy greedy, Squash squash, Normalize normalize, Rng rng, Rows rows,
                                    ActionRows action_rows, Low low, High high) {
    const float half_log_two_pi = 0.918938533f;
    const int env = wd_env(), agent = wd_agent(), row = rows(agent);
    if (row < 0) return;
    const int components = static_cast<int>(low.extent(0));
    float total = 0.0f;
    for (int component = 0; component < components; ++component) {
        const float mean = logits(env, row, component);
        float log_std = logits(env, row, components + component);
        const float width = high(component) - low(component);
        const bool is_bounded = width > 0.0f && width < wd_infinity;
        const float half = is_bounded ? 0.5f * width : 1.0f;
        const float centre = is_bounded ? low(component) + half : 0.0f;
        const bool knows_nothing = log_std == wd_infinity;
        float drawn, reached;
        if (knows_nothing && is_bounded) {
            const float part = wd_uniform(rng, env, agent);
            reached = fmaf(part, width, low(component));
            // inverse of the squashing; finite even if `part` is 0
            drawn = squash(0) ? 0.5f * wd_log((part + 2.98023224e-8f) / (1.0f - part)) : reached;
            total -= wd_log(width);
        } else {
            if (knows_nothing) log_std = 0.0f;
            const float deviation = greedy(0) ? 0.0f : wd_normal(rng, env, agent);
            drawn = fmaf(wd_exp(log_std), deviation, mean);
            reached = drawn;
            total -= 0.5f * deviation * deviation + log_std + half_log_two_pi;
            if (squash(0) && !knows_nothing) {
                // log(1 - tanh(x)^2) without cancellation
                const float size = fabsf(drawn);
                total -= wd_log(half) + 2.0f * (0.693147181f - size - wd_log(1.0f + wd_exp(-2.0f * size)));
                reached = fmaf(half, wd_tanh(drawn), centre);
            } else if (normalize(0) && !knows_nothing) {
                total -= wd_log(half);
                reached = fmaf(half, drawn, centre);
                drawn = reached;
            }
        }
        const int place = action_rows(agent) * components + component;
        sampled(env, place) = drawn;
        actions(env, place) = fminf(fmaxf(reached, low(component)), high(component));
    }
    log_probability(env, agent) = total;
}

// Draw each agent's action uniformly; only the shape of `logits` is used.
template <class Actions, class Logits, class Rng>
WD_FUNCTION void wd_draw_discrete(Actions actions, Logits logits, Rng rng) {
    const int env = wd_env(), agent = wd_agent();
    actions(env, agent) = wd_integer(rng, env, agent, static_cast<int>(logits.extent(2)));
}

// Draw all components uniformly, for the actions of the agents that have a row in `action_rows`.
template <class Actions, class Rng, class ActionRows, class NumChoices>
WD_FUNCTION void wd_draw_multi_discrete(Actions actions, Rng rng, ActionRows action_rows, NumChoices num_choices) {
    const int env = wd_env(), agent = wd_agent(), row = action_rows(agent);
    if (row < 0) return;
    const int components = static_cast<int>(num_choices.extent(0));
    for (int component = 0; component < components; ++component) {
        actions(env, row * components + component) = wd_integer(rng, env, agent, num_choices(component));
    }
}

// Draw uniformly among the actions allowed by `action_mask` [num_envs, num_agents, choices]; among all if none is.
template <class Actions, class Rng, class ActionRows, class NumChoices, class ActionMask>
WD_FUNCTION void wd_draw_allowed(Actions actions, Rng rng, ActionRows action_rows, NumChoices num_choices,
                                 ActionMask action_mask) {
    const int env = wd_env(), agent = wd_agent(), row = action_rows(agent);
    if (row < 0) return;
    const int components = static_cast<int>(num_choices.extent(0));
    int first = 0;
    for (int component = 0; component < components; ++component) {
        const int count = num_choices(component);
        int allowed = 0;
        for (int choice = 0; choice < count; ++choice) allowed += action_mask(env, agent, first + choice) ? 1 : 0;
        int left = wd_integer(rng, env, agent, allowed > 0 ? allowed : count);
        int chosen = left;
        for (int choice = 0; choice < count; ++choice) {
            if (!action_mask(env, agent, first + choice)) continue;
            if (left == 0) chosen = choice;
            --left;
        }
        actions(env, row * components + component) = chosen;
        first += count;
    }
}

// Draw the components of actions uniformly in [low, high], or normally, and clipped, if the range is not finite.
template <class Actions, class Rng, class ActionRows, class Low, class High>
WD_FUNCTION void wd_draw_continuous(Actions actions, Rng rng, ActionRows action_rows, Low low, High high) {
    const int env = wd_env(), agent = wd_agent(), row = action_rows(agent);
    if (row < 0) return;
    const int components = static_cast<int>(low.extent(0));
    for (int component = 0; component < components; ++component) {
        const float width = high(component) - low(component);
        const float value = width < wd_infinity ? fmaf(wd_uniform(rng, env, agent), width, low(component))
                                                : wd_normal(rng, env, agent);
        actions(env, row * components + component) = fminf(fmaxf(value, low(component)), high(component));
    }
}
