"""Sampling of actions from the policy outputs, on the device, as part of the fused step.

Continuous actions are drawn from independent normal distributions and clipped to their Box for the environment, while
rollouts hold the unclipped samples and their log-probabilities, as in CleanRL and Stable-Baselines3. The units of a
policy's outputs (``Actor.action_units``) are converted by the fused step and by the ``Distribution`` of losses and
loaded policies instead of by models, so that user-defined models are covered as well.
"""

from __future__ import annotations

import math

import numpy as np
from numba import cuda

import warpdrive.math as wd_math
import warpdrive.random as wd_random
from warpdrive.kernels.kernel import device_function

_HIGHEST = np.float32(3.4e38)  # replaces infinite logits, so that differences are finite
_ZERO, _HALF, _ONE, _TWO = np.float32(0.0), np.float32(0.5), np.float32(1.0), np.float32(2.0)
_LEAST = np.float32(2.0**-25)  # half of the smallest distance between two uniform numbers
_LOG_TWO = np.float32(math.log(2.0))
_INFINITY = np.float32(np.inf)
_HALF_LOG_TWO_PI = np.float32(0.5 * math.log(2.0 * math.pi))


@device_function
def choose(logits, env, row, first, count, random, greedy):  # type: ignore[no-untyped-def]
    """Return an action and its log-probability under the softmax of ``logits[env, row, first:first + count]``.

    ``random`` is uniform in [0, 1). If ``greedy``, the most probable action (the first of equals) is taken. If some
    logits are +inf, these actions are equally probable; if all are -inf, all actions are. If a logit is NaN, the action
    with the highest other logit is taken, and the log-probability is NaN.

    Args:
        logits: ``[num_envs, rows, num_logits]`` float32.
        env: Index of the replica.
        row: Row of the agent.
        first: Index of the first logit of the choice.
        count: Number of actions.
        random: Random number (float32).
        greedy: Nonzero to take the most probable action.

    Returns:
        The action, from 0 to ``count - 1``, and its log-probability (float32).
    """
    best = 0
    highest = -_INFINITY
    for action in range(count):
        logit = logits[env, row, first + action]
        if logit > highest:
            highest = logit
            best = action
    highest = min(max(highest, -_HIGHEST), _HIGHEST)
    total = _ZERO
    for action in range(count):
        below_highest = logits[env, row, first + action] - highest
        total += wd_math.exp(_ZERO if below_highest > _ZERO else below_highest)
    # no break: where the number of choices is baked in, the exponentials above are used again
    threshold = random * total
    cumulative, chosen, of_chosen = _ZERO, best, _ZERO
    for action in range(count):
        below_highest = logits[env, row, first + action] - highest
        below_highest = _ZERO if below_highest > _ZERO else below_highest
        weight = wd_math.exp(below_highest)
        if weight > _ZERO and cumulative <= threshold:
            chosen, of_chosen = action, below_highest
        cumulative += weight
    if total == _ZERO:
        total = np.float32(count)
        chosen = min(int(random * total), count - 1)
    if greedy:
        chosen, of_chosen = best, _ZERO
    return chosen, of_chosen - wd_math.log(total)


@device_function
def mask_logits(logits, masked_logits, action_mask, rows):  # type: ignore[no-untyped-def]
    """Copy an agent's logits; masked actions become -inf, allowed ones finite.

    Args:
        logits: ``[num_envs, rows, num_logits]`` float32.
        masked_logits: Of the same shape and dtype, written.
        action_mask: ``[num_envs, num_agents, num_logits]`` bool, True for allowed actions.
        rows: ``[num_agents]`` int32, row of each agent in ``logits``; -1: none.
    """
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    row = rows[agent]
    if row >= 0:
        for action in range(logits.shape[2]):
            logit = logits[env, row, action]
            possible = logit if logit > -_HIGHEST else -_HIGHEST  # also for -inf and NaN
            masked_logits[env, row, action] = possible if action_mask[env, agent, action] else -_INFINITY


@device_function
def sample_discrete(logits, actions, log_probability, greedy, rng, rows, action_rows):  # type: ignore[no-untyped-def]
    """Sample the action of each agent that has a row of ``logits`` in ``rows`` (-1: none).

    Args:
        logits: ``[num_envs, rows, num_logits]`` float32.
        actions: ``[num_envs, action rows]`` int32, written.
        log_probability: ``[num_envs, num_agents]`` float32, written.
        greedy: ``[1]`` int32, nonzero to take the most probable action.
        rng: ``[num_envs, num_agents, 4]`` uint32, random state of the sampler.
        rows: ``[num_agents]`` int32, row of each agent in ``logits``; -1: none.
        action_rows: ``[num_agents]`` int32, row of each agent in ``actions``.
    """
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    row, action_row, is_greedy = rows[agent], action_rows[agent], greedy[0]  # the same in all replicas
    if row >= 0:
        random = wd_random.uniform(rng, env, agent)
        action, logarithm = choose(logits, env, row, 0, logits.shape[2], random, is_greedy)
        actions[env, action_row] = action
        log_probability[env, agent] = logarithm


@device_function
def sample_multi_discrete(  # type: ignore[no-untyped-def]
    logits, actions, log_probability, greedy, rng, rows, action_rows, num_choices
):
    """Sample an action of several independent components; their log-probabilities are summed.

    Args:
        logits: ``[num_envs, rows, num_logits]`` float32, those of all components concatenated.
        actions: ``[num_envs, action rows, components]`` int32, written.
        log_probability: See :func:`sample_discrete`, also for the following arguments.
        greedy: As above.
        rng: As above.
        rows: As above.
        action_rows: As above.
        num_choices: ``[components]`` int32, number of choices of each component.
    """
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    row, action_row, is_greedy = rows[agent], action_rows[agent], greedy[0]
    if row >= 0:
        first = 0
        total = _ZERO
        for component in range(num_choices.shape[0]):
            random = wd_random.uniform(rng, env, agent)
            action, logarithm = choose(logits, env, row, first, num_choices[component], random, is_greedy)
            actions[env, action_row, component] = action
            total += logarithm
            first += num_choices[component]
        log_probability[env, agent] = total


@device_function
def sample_gaussian(  # type: ignore[no-untyped-def]
    logits, actions, sampled, log_probability, greedy, squash, normalize, rng, rows, action_rows, low, high
):
    """Sample continuous actions with independent, normally distributed components.

    ``logits[env, row]`` holds the means of all components, then the logarithms of their standard deviations. If that of
    a component is infinite (the initial value), it is uniform in its range ``[low, high]``, or standard normal if the
    range is not finite. ``sampled`` receives the samples, whose log-probability is recorded, and ``actions``, which the
    environment reads, the samples clipped to the Box.

    With ``normalize``, means and standard deviations of a component bounded on both sides are in units of half its
    range, relative to its centre. With ``squash``, ``actions`` receives the hyperbolic tangent of the sample, scaled
    from [-1, 1] to the Box, and the log-probability is that of the squashed action (Haarnoja et al. 2018,
    arXiv:1812.05905, appendix C).

    Args:
        logits: ``[num_envs, rows, 2 * components]`` float32.
        actions: ``[num_envs, action rows * components]`` float32, written.
        sampled: ``[num_envs, action rows * components]`` float32, written.
        log_probability: ``[num_envs, num_agents]`` float32, written.
        greedy: ``[1]`` int32, nonzero to take the means.
        squash: ``[1]`` int32, nonzero to squash samples instead of clipping them.
        normalize: ``[1]`` int32, nonzero for outputs in units of half the range.
        rng: ``[num_envs, num_agents, 4]`` uint32, random state of the sampler.
        rows: ``[num_agents]`` int32, row of each agent in ``logits``; -1: none.
        action_rows: ``[num_agents]`` int32, row of each agent in ``actions``.
        low: ``[components]`` float32, lower bounds.
        high: ``[components]`` float32, upper bounds.
    """
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    row, action_row = rows[agent], action_rows[agent]
    is_greedy, is_squashed, is_normalized = greedy[0], squash[0], normalize[0]
    if row >= 0:
        components = low.shape[0]
        total = _ZERO
        for component in range(components):
            mean, log_std = logits[env, row, component], logits[env, row, components + component]
            width = high[component] - low[component]
            is_bounded = width > _ZERO and width < _INFINITY
            half = _HALF * width if is_bounded else _ONE
            centre = low[component] + half if is_bounded else _ZERO
            knows_nothing = log_std == _INFINITY
            if knows_nothing and is_bounded:
                part = wd_random.uniform(rng, env, agent)
                reached = cuda.fma(part, width, low[component])
                # the sample that is squashed to it: finite, though `part` may be 0
                drawn = _HALF * wd_math.log((part + _LEAST) / (_ONE - part)) if is_squashed else reached
                total -= wd_math.log(width)
            else:
                if knows_nothing:
                    log_std = _ZERO
                deviation = _ZERO if is_greedy else wd_random.normal(rng, env, agent)
                drawn = cuda.fma(wd_math.exp(log_std), deviation, mean)
                reached = drawn
                total -= _HALF * deviation * deviation + log_std + _HALF_LOG_TWO_PI
                if is_squashed and not knows_nothing:
                    size = abs(drawn)  # log(1 - tanh(x)**2) without a difference of numbers that are nearly equal
                    total -= wd_math.log(half) + _TWO * (
                        _LOG_TWO - size - wd_math.log(_ONE + wd_math.exp(-_TWO * size))
                    )
                    reached = cuda.fma(half, wd_math.tanh(drawn), centre)
                elif is_normalized and not knows_nothing:
                    total -= wd_math.log(half)
                    reached = cuda.fma(half, drawn, centre)
                    drawn = reached
            place = action_row * components + component
            sampled[env, place] = drawn
            actions[env, place] = min(max(reached, low[component]), high[component])
        log_probability[env, agent] = total


@device_function
def draw_discrete(actions, logits, rng):  # type: ignore[no-untyped-def]
    """Draw each agent's action uniformly; only the shape of ``logits`` is used.

    The additional array reads of :func:`draw_multi_discrete` would prevent a CPU from vectorising over replicas.

    Args:
        actions: ``[num_envs, num_agents]`` int32, written.
        logits: ``[num_envs, rows, num_logits]`` float32.
        rng: ``[num_envs, num_agents, 4]`` uint32, random state of the sampler.
    """
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    actions[env, agent] = wd_random.integer(rng, env, agent, logits.shape[2])


@device_function
def draw_multi_discrete(actions, rng, action_rows, num_choices):  # type: ignore[no-untyped-def]
    """Draw all components uniformly, for the actions of the agents that have a row in ``action_rows``.

    Args:
        actions: ``[num_envs, action rows * components]`` int32, written.
        rng: ``[num_envs, num_agents, 4]`` uint32, random state of the sampler.
        action_rows: ``[num_agents]`` int32, row of each agent's action; -1: none.
        num_choices: ``[components]`` int32, number of choices of each component.
    """
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    row = action_rows[agent]
    if row >= 0:
        for component in range(num_choices.shape[0]):
            place = row * num_choices.shape[0] + component
            actions[env, place] = wd_random.integer(rng, env, agent, num_choices[component])


@device_function
def draw_allowed(actions, rng, action_rows, num_choices, action_mask):  # type: ignore[no-untyped-def]
    """Draw uniformly among actions allowed by ``action_mask [num_envs, num_agents, choices]``; among all if none is.

    Args:
        actions: ``[num_envs, action rows * components]`` int32, written.
        rng: ``[num_envs, num_agents, 4]`` uint32, random state of the sampler.
        action_rows: ``[num_agents]`` int32, row of each agent's action; -1: none.
        num_choices: ``[components]`` int32, number of choices of each component.
        action_mask: Bool, True for allowed choices.
    """
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    row = action_rows[agent]
    if row >= 0:
        first = 0
        for component in range(num_choices.shape[0]):
            count = num_choices[component]
            allowed = 0
            for choice in range(count):
                if action_mask[env, agent, first + choice]:
                    allowed += 1
            left = wd_random.integer(rng, env, agent, allowed if allowed > 0 else count)
            chosen = left
            for choice in range(count):
                if action_mask[env, agent, first + choice]:
                    if left == 0:
                        chosen = choice
                    left -= 1
            actions[env, row * num_choices.shape[0] + component] = chosen
            first += count


@device_function
def draw_continuous(actions, rng, action_rows, low, high):  # type: ignore[no-untyped-def]
    """Draw the components of actions uniformly in ``[low, high]``; if not finite, standard normal and clipped.

    Args:
        actions: ``[num_envs, action rows * components]`` float32, written.
        rng: ``[num_envs, num_agents, 4]`` uint32, random state of the sampler.
        action_rows: ``[num_agents]`` int32, row of each agent's action; -1: none.
        low: ``[components]`` float32, lower bounds.
        high: ``[components]`` float32, upper bounds.
    """
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    row = action_rows[agent]
    if row >= 0:
        for component in range(low.shape[0]):
            width = high[component] - low[component]
            if width < _INFINITY:
                value = cuda.fma(wd_random.uniform(rng, env, agent), width, low[component])
            else:
                value = wd_random.normal(rng, env, agent)
            actions[env, row * low.shape[0] + component] = min(max(value, low[component]), high[component])
