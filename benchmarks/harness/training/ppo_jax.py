"""PPO and cartpole in JAX under one ``jit``, in the style of PureJaxRL (Lu et al. 2022, arXiv:2210.05639).

Environment, rollouts, advantages and minibatches are compiled into one program; measured by ``training.py``.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from harness.environments.cartpole_jax import NAMES, move
from harness.training.settings import ADAM_EPSILON, HIDDEN, Layers, Settings
from warpdrive.envs.cartpole import CartPole

ENV = CartPole()


class Steps(NamedTuple):
    """Arrays of a rollout, ``[num_steps, num_envs]``."""

    observations: Any
    actions: Any
    log_probs: Any
    values: Any
    rewards: Any
    done: Any


class Run(NamedTuple):
    """The training state."""

    key: Any
    parameters: Any
    first_moments: Any
    second_moments: Any
    gradient_steps: Any
    state: Any
    time: Any


def perceptron(key: Any, outputs: int, last_gain: float) -> list[tuple[Any, Any]]:
    """Return the layers of the policy or value network."""
    sizes = (4, *HIDDEN, outputs)
    gains = [2**0.5] * len(HIDDEN) + [last_gain]
    keys = jax.random.split(key, len(gains))
    return [
        (jax.nn.initializers.orthogonal(gain)(k, (inputs, width)), jnp.zeros(width))
        for k, gain, inputs, width in zip(keys, gains, sizes, sizes[1:], strict=False)
    ]


def forward(layers: Any, inputs: Any) -> Any:
    """Return the outputs of a perceptron for ``inputs [..., n]``."""
    for weight, bias in layers[:-1]:
        inputs = jnp.tanh(inputs @ weight + bias)
    weight, bias = layers[-1]
    return inputs @ weight + bias


def start_states(key: Any, num_envs: int) -> dict[str, Any]:
    """Return random start states."""
    numbers = jax.random.uniform(key, (4, num_envs), jnp.float32, -ENV.start_range, ENV.start_range)
    return dict(zip(NAMES, numbers, strict=True))


def observed(state: Any) -> Any:
    """Return observations ``[num_envs, 4]``."""
    return jnp.stack([state[name] for name in NAMES], axis=-1)


@partial(jax.jit, static_argnums=0)
def started(settings: Settings, seed: Any) -> Run:
    """Return a run before its first step."""
    key, for_policy, for_value, for_state = jax.random.split(jax.random.key(seed), 4)
    parameters = {"policy": perceptron(for_policy, 2, 0.01), "value": perceptron(for_value, 1, 1.0)}
    zeros = jax.tree.map(jnp.zeros_like, parameters)
    state, time = start_states(for_state, settings.num_envs), jnp.zeros(settings.num_envs, jnp.int32)
    return Run(key, parameters, zeros, zeros, jnp.zeros((), jnp.int32), state, time)


def step(carry: tuple[Any, Any, Any], _: None, parameters: Any, num_envs: int) -> tuple[Any, Steps]:
    """Sample actions, step, and reset replicas whose episodes have ended."""
    key, state, time = carry
    key, for_actions, for_start = jax.random.split(key, 3)
    observations = observed(state)
    log_p = jax.nn.log_softmax(forward(parameters["policy"], observations))
    actions = jax.random.categorical(for_actions, log_p)
    log_probs = jnp.take_along_axis(log_p, actions[:, None], axis=-1)[:, 0]
    values = forward(parameters["value"], observations)[:, 0]
    moved, terminated = move(state, actions, ENV, jnp)
    time = time + 1
    done = terminated | (time >= ENV.episode_length)
    new = start_states(for_start, num_envs)
    state = {name: jnp.where(done, new[name], moved[name]) for name in NAMES}
    steps = Steps(observations, actions, log_probs, values, jnp.ones(num_envs), done)
    return (key, state, jnp.where(done, 0, time)), steps


def advantages_of(steps: Steps, last_values: Any, settings: Settings) -> Any:
    """Return generalised advantage estimates; truncation counts as termination, as in PureJaxRL."""

    def back(carry: Any, now: Any) -> Any:
        later, next_values = carry
        values, rewards, done = now
        delta = rewards + settings.gamma * next_values * (1 - done) - values
        later = delta + settings.gamma * settings.gae_lambda * (1 - done) * later
        return (later, values), later

    beginning = (jnp.zeros_like(last_values), last_values)
    return jax.lax.scan(back, beginning, (steps.values, steps.rewards, steps.done), reverse=True, unroll=8)[1]


def loss_of(parameters: Any, rows: Any, settings: Settings) -> Any:
    """Return the loss of a minibatch."""
    observations, actions, log_probs, advantages, returns = rows
    log_p = jax.nn.log_softmax(forward(parameters["policy"], observations))
    ratio = jnp.exp(jnp.take_along_axis(log_p, actions[:, None], axis=-1)[:, 0] - log_probs)
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    clipped = jnp.clip(ratio, 1 - settings.clip, 1 + settings.clip)
    policy_loss = -jnp.minimum(ratio * advantages, clipped * advantages).mean()
    value_loss = 0.5 * jnp.square(forward(parameters["value"], observations)[:, 0] - returns).mean()
    return policy_loss + settings.value_coef * value_loss


def gradient_step(carry: Any, rows: Any, settings: Settings) -> tuple[Any, None]:
    """Apply one step of Adam (Kingma and Ba 2015) with the gradient clipped by its norm."""
    parameters, first, second, count = carry
    gradient = jax.grad(loss_of)(parameters, rows, settings)
    norm = jnp.sqrt(sum(jnp.square(leaf).sum() for leaf in jax.tree.leaves(gradient)))
    gradient = jax.tree.map(lambda g: g * jnp.minimum(1.0, settings.max_grad_norm / (norm + 1e-6)), gradient)
    count = count + 1
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradient)
    rate = settings.lr / (1 - 0.9**count)
    correction = 1 / (1 - 0.999**count)
    parameters = jax.tree.map(
        lambda p, m, v: p - rate * m / (jnp.sqrt(v * correction) + ADAM_EPSILON), parameters, first, second
    )
    return (parameters, first, second, count), None


def update(run: Run, settings: Settings) -> Run:
    """Return the training state after a rollout and its gradient steps."""
    act = partial(step, parameters=run.parameters, num_envs=settings.num_envs)
    (key, state, time), steps = jax.lax.scan(act, (run.key, run.state, run.time), None, settings.num_steps)
    last_values = forward(run.parameters["value"], observed(state))[:, 0]
    advantages = advantages_of(steps, last_values, settings)
    kept = (steps.observations, steps.actions, steps.log_probs, advantages, advantages + steps.values)
    rows = [array.reshape(settings.batch_size, *array.shape[2:]) for array in kept]

    def epoch(carry: Any, for_order: Any) -> Any:
        order = jax.random.permutation(for_order, settings.batch_size)
        shape = (settings.minibatches, settings.minibatch_size)
        shuffled = [array[order].reshape(*shape, *array.shape[1:]) for array in rows]
        return jax.lax.scan(partial(gradient_step, settings=settings), carry, shuffled)

    key, for_orders = jax.random.split(key)
    learned = (run.parameters, run.first_moments, run.second_moments, run.gradient_steps)
    learned, _ = jax.lax.scan(epoch, learned, jax.random.split(for_orders, settings.epochs))
    return Run(key, *learned, state, time)


@partial(jax.jit, static_argnums=0)
def updated(settings: Settings, run: Run, updates: Any) -> Run:
    """Return the training state after ``updates`` updates."""
    return jax.lax.fori_loop(0, updates, lambda _, run: update(run, settings), run)


class Jax:
    """PPO as one compiled JAX program."""

    def __init__(self, settings: Settings, seed: int) -> None:
        self.settings, self.run = settings, started(settings, seed)

    def advance(self, updates: int) -> None:
        """See ``Contestant``."""
        self.run = jax.block_until_ready(updated(self.settings, self.run, updates))

    def policy(self) -> Layers:
        """See ``Contestant``."""
        return [(np.asarray(weight), np.asarray(bias)) for weight, bias in self.run.parameters["policy"]]
