// Sample actions from the policies' outputs. See warpdrive/sampler.py.

#pragma once

// An action and its log-probability.
struct wd_choice {
    int action;
    float log_probability;
};

#define WD_HIGHEST 3.4e38f  // what infinite logits count as, so that differences are numbers

// An action under the softmax of logits[env, row, first : first + count]. `random` is uniform in [0, 1); with `greedy`
// the most probable action (of equals the first) is taken. Where some logits are +inf, these actions are equally probable;
// where all are -inf, all actions are. Where a logit is NaN, the action with the highest other one is taken, and the
// log-probability is NaN.
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

// Copy an agent's logits, with -inf for actions that it may not take and finite numbers for those that it may.
template <class Logits, class MaskedLogits, class ActionMask, class Rows>
WD_FUNCTION void wd_mask_logits(Logits logits, MaskedLogits masked_logits, ActionMask action_mask, Rows rows) {
    const int env = wd_env(), agent = wd_agent(), row = rows(agent);
    if (row < 0) return;
    for (int action = 0; action < logits.extent(2); ++action) {
        const float logit = logits(env, row, action);
        const float possible = logit > -WD_HIGHEST ? logit : -WD_HIGHEST;  // of -inf and NaN, too
        masked_logits(env, row, action) = action_mask(env, agent, action) ? possible : -wd_infinity;
    }
}

// Sample the action of each agent that `rows` gives a row of `logits` (-1: none).
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

// Sample an action of several independent components; their log-probabilities add up.
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

// Sample continuous actions, whose components are independent and normally distributed.
//
// logits[env, row] holds the means of all components, then the logarithms of their standard deviations. Where that is
// infinite, as nothing has been said about the component, it is uniform in its part [low, high] of the Box, or standard
// normal if that part is not finite. `sampled` gets what was drawn, whose log-probability is told, and `actions`, which
// the environment sees, that clipped to the Box; both are rows of numbers. With `normalize`, means and deviations of a
// component that is bounded on both sides are in units of half its range, from its centre on. With `squash`, `actions`
// gets the hyperbolic tangent of what was drawn, stretched from [-1, 1] to the Box, whose log-probability is then told.
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
            // what is squashed to it: finite, though `part` may be 0
            drawn = squash(0) ? 0.5f * wd_log((part + 2.98023224e-8f) / (1.0f - part)) : reached;
            total -= wd_log(width);
        } else {
            if (knows_nothing) log_std = 0.0f;
            const float deviation = greedy(0) ? 0.0f : wd_normal(rng, env, agent);
            drawn = fmaf(wd_exp(log_std), deviation, mean);
            reached = drawn;
            total -= 0.5f * deviation * deviation + log_std + half_log_two_pi;
            if (squash(0) && !knows_nothing) {
                // log(1 - tanh(x)^2) without a difference of numbers that are nearly equal
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

// Draw each agent's action, all equally probable; of `logits` only their number is looked at.
template <class Actions, class Logits, class Rng>
WD_FUNCTION void wd_draw_discrete(Actions actions, Logits logits, Rng rng) {
    const int env = wd_env(), agent = wd_agent();
    actions(env, agent) = wd_integer(rng, env, agent, static_cast<int>(logits.extent(2)));
}

// Draw the components of the actions of all agents that `action_rows` gives a row: all equally probable.
template <class Actions, class Rng, class ActionRows, class NumChoices>
WD_FUNCTION void wd_draw_multi_discrete(Actions actions, Rng rng, ActionRows action_rows, NumChoices num_choices) {
    const int env = wd_env(), agent = wd_agent(), row = action_rows(agent);
    if (row < 0) return;
    const int components = static_cast<int>(num_choices.extent(0));
    for (int component = 0; component < components; ++component) {
        actions(env, row * components + component) = wd_integer(rng, env, agent, num_choices(component));
    }
}

// Draw the same among those that `action_mask` [num_envs, num_agents, choices] allows; among all if it allows none.
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

// Draw the components of actions in [low, high] uniformly; where that is not finite, normally, and clip them.
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
