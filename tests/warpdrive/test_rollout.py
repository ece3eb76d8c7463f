"""Rollouts: sampling and recording by the fused step."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from numba import cuda

import warpdrive as wd
from warpdrive.backends.loading import usable_backends
from warpdrive.env_wrapper import EnvWrapper
from warpdrive.errors import DefinitionError


def run(env: EnvWrapper, num_steps: int) -> wd.Rollout:
    rollout = env.allocate_rollout(num_steps)
    for _ in range(num_steps):
        env.step_rollout(rollout)
    return rollout


@pytest.mark.parametrize("backend", usable_backends())
def test_a_rollout_holds_what_steps_with_its_actions_return(walkers: Callable[..., Any], backend: str) -> None:
    sampled = EnvWrapper(walkers(), 10, backend, seed=8, reset_pool_size=9)
    stepped = EnvWrapper(walkers(), 10, backend, seed=8, reset_pool_size=9)
    rollout = run(sampled, 12)
    assert rollout.active is not None and rollout.action_mask is None
    assert torch.equal(rollout.observations[0], stepped.ctx["observations"])
    truncations = 0
    for t in range(12):
        assert torch.equal(rollout.active[t], stepped.ctx["active"])
        observations, rewards, terminated, truncated, info = stepped.step(rollout.actions[t])
        assert torch.equal(rollout.observations[t + 1], observations)
        assert torch.equal(rollout.rewards[t], rewards)
        assert torch.equal(rollout.terminated[t], terminated)
        assert torch.equal(rollout.truncated[t], truncated)
        bootstrapped = truncated & ~terminated
        assert torch.equal(rollout.final_slot[t] >= 0, bootstrapped)
        for i in bootstrapped.nonzero().flatten().tolist():
            final = rollout.final_observations[rollout.final_slot[t, i], i]
            assert torch.equal(final, info["final_observations"][i])
            truncations += 1
    assert truncations > 5


def test_a_rollout_holds_the_global_state_where_it_is_asked_for(walkers: Callable[..., Any], backend: str) -> None:
    """Also at the end of truncated episodes, before the reset: there the observations tell it, too."""
    environment = walkers()
    environment.global_state = ("timestep", "position", "observations")
    env = EnvWrapper(environment, 10, backend, seed=8, reset_pool_size=9)
    assert not env.allocate_rollout(1).global_state
    rollout = env.allocate_rollout(12, global_state=True)
    for t in range(13):
        for name, recorded in rollout.global_state.items():
            assert torch.equal(recorded[t], env.ctx[name]) and recorded.dtype == env.ctx[name].dtype
        if t < 12:
            env.step_rollout(rollout)
    taken = [(slot, e) for slots in rollout.final_slot.tolist() for e, slot in enumerate(slots) if slot >= 0]
    assert len(taken) > 5
    for place in taken:
        at_end = {name: recorded[place] for name, recorded in rollout.final_global_state.items()}
        seen = rollout.final_observations[place]
        assert torch.equal(at_end["observations"], seen) and at_end["timestep"] == 5 == seen[0, 3]
        torch.testing.assert_close(at_end["position"] / 7, seen[0, :3])
    rollout.begin()
    assert torch.equal(rollout.global_state["position"][0], env.ctx["position"])


def test_a_rollout_begins_where_the_one_before_ended(walkers: Callable[..., Any], backend: str) -> None:
    env = EnvWrapper(walkers(), 10, backend)
    rollout = run(env, 6)
    last = rollout.observations[6].clone()
    rollout.begin()
    assert torch.equal(rollout.observations[0], last)
    env.step_rollout(rollout)
    assert int(rollout.step) == 1
    assert torch.equal(rollout.observations[1], env.ctx["observations"])


def test_a_full_rollout_takes_no_more_steps(walkers: Callable[..., Any], backend: str) -> None:
    env, other = EnvWrapper(walkers(), 10, backend), EnvWrapper(walkers(), 10, backend)
    rollout = run(env, 3)
    with pytest.raises(DefinitionError, match="full after 3 steps"):
        env.step_rollout(rollout)
    rollout.begin()
    with pytest.raises(DefinitionError, match="another EnvWrapper"):
        other.step_rollout(rollout)
    env.step_rollout(rollout)


@wd.device_function
def near_the_end(timestep, env, episode_length, length):
    timestep[env] = episode_length - length


@wd.kernel
def start_near_the_end(timestep, episode_length, length):
    if cuda.threadIdx.x == 0:
        near_the_end(timestep, cuda.blockIdx.x, episode_length, length[0])


@pytest.mark.parametrize("length", [1, 3])
def test_every_truncation_has_final_observations(walkers: Callable[..., Any], backend: str, length: int) -> None:
    environment = walkers(ring_length=1000, episode_length=50)
    environment.reset = start_near_the_end  # so that episodes are `length` steps long
    environment.length = np.array([length], np.int32)  # an array: the same kernel for all lengths
    environment.steps_between_truncations = length
    rollout = run(EnvWrapper(environment, 4, backend), 7)
    ends = [step % length == length - 1 for step in range(7)]
    assert torch.equal(rollout.truncated.cpu(), torch.tensor(ends)[:, None].expand(7, 4))
    assert rollout.num_final == -(-7 // length)
    slots = [step // length if end else -1 for step, end in enumerate(ends)]
    assert torch.equal(rollout.final_slot.cpu(), torch.tensor(slots, dtype=torch.int32)[:, None].expand(7, 4))
    assert (rollout.final_observations[: max(slots) + 1, ..., 3] == 50).all()
    assert (
        rollout.observations[:7, ..., 3].cpu()
        == torch.tensor([50 - length + step % length for step in range(7)])[:, None, None]
    ).all()


def test_a_time_set_from_outside_does_no_harm(walkers: Callable[..., Any], backend: str) -> None:
    env = EnvWrapper(walkers(), 4, backend)
    for tag in env.policy_tags:
        env.logits(tag)[..., 1] = 100.0  # nobody moves, so that no episode terminates
    rollout = env.allocate_rollout(5)
    assert len(rollout.final_observations) == 1
    for _ in range(5):
        env.ctx["timestep"].fill_(4)
        env.step_rollout(rollout)
    assert rollout.truncated.all()
    assert (rollout.final_slot == 0).all()


def test_tags_see_their_own_agents_in_the_order_of_their_ids(walkers: Callable[..., Any], backend: str) -> None:
    rollout = run(EnvWrapper(walkers(), 10, backend), 4)
    assert torch.equal(rollout.of("actions", "odd"), rollout.actions[:, :, [0, 2]])
    assert torch.equal(rollout.of("observations", "even"), rollout.observations[:, :, [1]])
    assert rollout.of("rewards", "even").data_ptr() == rollout.rewards[:, :, 1:].data_ptr()  # a view
    for name, tag, message in (("reward", "odd", "Did you mean 'rewards'"), ("rewards", "off", "expected one of ")):
        with pytest.raises(DefinitionError, match=message):
            rollout.of(name, tag)


def test_what_agents_see_now_is_what_the_next_step_records(walkers: Callable[..., Any], backend: str) -> None:
    env = EnvWrapper(walkers(), 10, backend)
    rollout = env.allocate_rollout(4)
    for t in range(4):
        for tag in ("odd", "even"):
            assert torch.equal(env.observations(tag), rollout.of("observations", tag)[t])
        env.step_rollout(rollout)
    assert env.observations("even").data_ptr() == env.ctx["observations"][:, 1:].data_ptr()  # a view


def test_log_probabilities_are_those_of_the_softmax(walkers: Callable[..., Any], backend: str) -> None:
    env = EnvWrapper(walkers(), 50, backend)
    generator = torch.Generator().manual_seed(0)
    for tag in ("odd", "even"):
        env.logits(tag).copy_(torch.randn(env.logits(tag).shape, generator=generator) * 3)
    rollout = run(env, 1)
    for tag in ("odd", "even"):
        expected = torch.log_softmax(env.logits(tag), dim=-1).gather(
            -1, rollout.of("actions", tag)[0, ..., None].long()
        )
        torch.testing.assert_close(rollout.of("log_probabilities", tag)[0], expected[..., 0], rtol=1e-5, atol=1e-6)


def test_actions_are_drawn_with_the_probabilities_of_the_softmax(walkers: Callable[..., Any], backend: str) -> None:
    """Fixed seed; each of 9 shares of over 10,000 draws is 6 standard deviations off with p < 2e-9."""
    env = EnvWrapper(walkers(), 5000, backend, seed=1)
    logits = torch.tensor([[0.0, 1.0, -2.0], [math.log(0.2), math.log(0.3), math.log(0.5)], [-80.0, 0.0, 80.0]])
    env.logits("odd").copy_(logits[[0, 2]])
    env.logits("even").copy_(logits[[1]])
    rollout = run(env, 4)
    shares = torch.stack([(rollout.actions == k).float().mean(dim=(0, 1)) for k in range(3)], dim=1).cpu()
    expected = torch.softmax(logits, dim=1)
    spread = (expected * (1 - expected) / 20_000).sqrt()
    assert ((shares - expected).abs() <= 6 * spread + 1e-12).all()


def test_sampled_actions_do_not_repeat_from_step_to_step(walkers: Callable[..., Any], backend: str) -> None:
    """Two steps of 3000 uniform choices agree in all with probability 3**-3000."""
    rollout = run(EnvWrapper(walkers(), 1000, backend), 3)
    assert not torch.equal(rollout.actions[0], rollout.actions[1])
    assert not torch.equal(rollout.actions[1], rollout.actions[2])


def test_greedy_takes_the_first_of_the_most_probable(walkers: Callable[..., Any], backend: str) -> None:
    env = EnvWrapper(walkers(), 10, backend)
    env.greedy = True
    env.logits("odd").copy_(torch.tensor([1.0, 5.0, 2.0]))
    env.logits("even").copy_(torch.tensor([3.0, 3.0, 1.0]))
    rollout = run(env, 2)
    assert (rollout.of("actions", "odd") == 1).all()
    assert (rollout.of("actions", "even") == 0).all()
    env.greedy = False
    assert not env.greedy


@wd.kernel
def masked_step(level, actions, rewards, action_mask, timestep):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    level[env, agent] = actions[env, agent, 0]
    for choice in range(5):
        action_mask[env, agent, choice] = choice == timestep[env] % 3 or choice == 3 + timestep[env] % 2
    rewards[env, agent] = 0


class Masked(wd.Environment):
    """Only one choice of each of two components is allowed after the first step."""

    name = "masked"
    step = masked_step
    cuda_twins = {"masked_step": wd.cuda_kernel("twins/masked.cu", "masked_step")}  # noqa: RUF012
    num_agents, episode_length = 2, 100

    def __init__(self) -> None:
        self.policy_tags = {"all": [0, 1]}
        self.observation_space = spaces.Box(0, 1, (1,), np.float32)
        self.action_space = spaces.MultiDiscrete([3, 2])

    def initial_state(self, rng: np.random.Generator) -> dict[str, Any]:
        return {"level": np.zeros(2, np.int32)}


@pytest.mark.parametrize("backend", usable_backends())
def test_masks_of_each_step_apply_to_that_step(backend: str) -> None:
    env = EnvWrapper(Masked(), 30, backend)
    rollout = run(env, 8)
    assert rollout.action_mask is not None and rollout.action_mask[0].all()
    assert len(rollout.actions[0, ..., 0].unique()) == 3  # missed with probability below 3 * (2/3)**60
    for t in range(1, 8):
        assert (rollout.actions[t, ..., 0] == t % 3).all()
        assert (rollout.actions[t, ..., 1] == t % 2).all()
        allowed = [k == t % 3 or k == 3 + t % 2 for k in range(5)]
        assert rollout.action_mask[t, 0, 0].tolist() == allowed
        assert (rollout.log_probabilities[t].abs() < 1e-6).all()
    assert (env.logits("all") == 0).all()  # what the policy wrote is left alone


def test_random_actions_keep_to_the_mask(backend: str) -> None:
    env = EnvWrapper(Masked(), 60, backend)
    env.step()
    first, second = (set(env.actions("all")[..., part].unique().tolist()) for part in (0, 1))
    assert first == {0, 1, 2} and second == {0, 1}  # missed with probability below 3 * (2/3)**120
    for t in range(1, 8):
        env.step()
        assert (env.actions("all") == torch.tensor([t % 3, t % 2], device=env.device)).all()


def test_multi_discrete_log_probabilities_add_up(backend: str) -> None:
    env = EnvWrapper(Masked(), 30, backend)
    env.logits("all").copy_(torch.tensor([0.0, 1.0, 2.0, -1.0, 1.0]))
    rollout = run(env, 1)
    chosen = rollout.actions[0].long().cpu()
    first = torch.log_softmax(torch.tensor([0.0, 1.0, 2.0]), 0)[chosen[..., 0]]
    second = torch.log_softmax(torch.tensor([-1.0, 1.0]), 0)[chosen[..., 1]]
    torch.testing.assert_close(rollout.log_probabilities[0].cpu(), first + second, rtol=1e-5, atol=1e-6)


def test_room_for_no_steps_is_refused(walkers: Callable[..., Any], backend: str) -> None:
    with pytest.raises(DefinitionError, match="num_steps is 0"):
        EnvWrapper(walkers(), 2, backend).allocate_rollout(0)


@wd.kernel
def move_step(position, actions, observations, rewards):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    rewards[env, agent] = actions[env, agent, 0, 0]
    for i in range(2):
        for j in range(2):
            position[env, agent, i, j] += actions[env, agent, i, j]
    observations[env, agent, 0] = position[env, agent, 1, 1]


LOW, HIGH = np.array([[-1, 0], [2, -np.inf]], np.float32), np.array([[1, 0.5], [6, 3]], np.float32)


class Movers(wd.Environment):
    """Three agents in two tags, one in descending order, whose actions are two by two numbers; one has no lower end."""

    name = "movers"
    step = move_step
    cuda_twins = {"move_step": wd.cuda_kernel("twins/movers.cu", "move_step")}  # noqa: RUF012

    def __init__(self) -> None:
        self.num_agents, self.episode_length = 3, 100
        self.policy_tags = {"outer": [2, 0], "inner": [1]}
        self.observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.action_space = spaces.Box(LOW, HIGH)

    def initial_state(self, rng: np.random.Generator) -> dict[str, Any]:
        return {"position": np.zeros((3, 2, 2), np.float32)}


def test_random_continuous_actions_are_uniform_where_they_have_bounds(backend: str) -> None:
    env = EnvWrapper(Movers(), 5000, backend, seed=3)
    env.step()
    low, high = torch.tensor(LOW).reshape(-1), torch.tensor(HIGH).reshape(-1)
    drawn = env.ctx["actions"].reshape(-1, 4).cpu()
    assert (drawn >= low).all() and (drawn <= high).all()
    for component in range(4):
        values = drawn[:, component].double().sort().values
        if high[component] - low[component] < torch.inf:
            expected = (values - low[component]) / (high[component] - low[component])
        else:
            expected = torch.special.ndtr(values)
        inside = (values > low[component]) & (values < high[component])  # of a normal number, what is not clipped
        empirical = torch.arange(1, len(values) + 1) / len(values)
        # Kolmogorov and Smirnov: exceeded by chance with probability below 2 * exp(-2 * 2.5**2) = 7e-6 each
        assert (empirical - expected)[inside].abs().max() < 2.5 / len(values) ** 0.5


def test_actions_of_the_caller_are_clipped_to_their_box(backend: str) -> None:
    env = EnvWrapper(Movers(), 4, backend)
    given = torch.linspace(-10, 10, 4 * 3 * 4, dtype=torch.float64).reshape(4, 3, 2, 2)
    env.step(given.to(env.device))
    assert np.array_equal(env.ctx["actions"].cpu().numpy(), np.clip(given.numpy().astype(np.float32), LOW, HIGH))
    assert torch.equal(env.ctx["rewards"], env.ctx["actions"][..., 0, 0]), "what the kernel saw"


def run_movers(
    backend: str, num_envs: int, num_steps: int
) -> tuple[EnvWrapper, wd.Rollout, torch.Tensor, torch.Tensor]:
    """Also return the mean and the standard deviation of each agent's four components, ``[3, 4]``."""
    env = EnvWrapper(Movers(), num_envs, backend, seed=3)
    generator = torch.Generator().manual_seed(1)
    mean, log_std = torch.randn(3, 4, generator=generator), 0.5 * torch.randn(3, 4, generator=generator)
    for tag, ids in env.policy_tags.items():
        env.logits(tag).copy_(torch.cat([mean[ids], log_std[ids]], -1))
    return env, run(env, num_steps), mean.to(env.device), log_std.exp().to(env.device)


@pytest.mark.parametrize("backend", usable_backends())
def test_continuous_actions_have_the_means_and_deviations_of_the_policy(backend: str) -> None:
    _, rollout, mean, std = run_movers(backend, 500, 20)
    assert isinstance(rollout.actions, torch.Tensor) and rollout.actions.dtype == torch.float32
    deviation = (rollout.actions.flatten(3) - mean) / std
    expected = torch.distributions.Normal(mean, std).log_prob(rollout.actions.flatten(3)).sum(-1)
    torch.testing.assert_close(rollout.log_probabilities, expected, rtol=1e-4, atol=1e-4)
    # Of 10,000 normal numbers each; 12 means, 12 variances, 66 correlations of components and 12 with the next step.
    # All bounds are 6 standard errors: with another seed, one of them fails with p < 3e-7.
    drawn = deviation.flatten(0, 1).double()
    assert drawn.mean(0).abs().max() < 6 / math.sqrt(10_000)
    assert (drawn.var(0) - 1).abs().max() < 6 * math.sqrt(2 / 10_000)
    correlations = torch.corrcoef(drawn.flatten(1).T).cpu() - torch.eye(12)
    assert correlations.abs().max() < 6 / math.sqrt(10_000)
    assert (deviation[1:] * deviation[:-1]).double().mean((0, 1)).abs().max() < 6 / math.sqrt(9_500)


def test_environments_get_continuous_actions_clipped_and_rollouts_hold_them_as_drawn(backend: str) -> None:
    env, rollout, _, _ = run_movers(backend, 50, 10)
    stepped = EnvWrapper(Movers(), 50, backend, seed=3)
    assert isinstance(rollout.actions, torch.Tensor)
    clipped = rollout.actions.clamp(*(torch.from_numpy(bound).to(env.device) for bound in (LOW, HIGH)))
    assert 0.2 < (clipped != rollout.actions).double().mean() < 0.8
    for t in range(10):
        assert torch.equal(rollout.rewards[t], clipped[t, ..., 0, 0])
        stepped.step(clipped[t])
    assert torch.equal(env.ctx["position"], stepped.ctx["position"])


def test_greedy_takes_the_mean(backend: str) -> None:
    env, _, mean, std = run_movers(backend, 5, 1)
    env.greedy = True
    rollout = run(env, 2)
    assert isinstance(rollout.actions, torch.Tensor)
    torch.testing.assert_close(rollout.actions.flatten(3), mean.expand(2, 5, 3, 4))
    expected = torch.distributions.Normal(mean, std).log_prob(mean).sum(-1)
    torch.testing.assert_close(rollout.log_probabilities, expected.expand(2, 5, 3))


def test_random_continuous_actions_are_uniform_in_the_box(backend: str) -> None:
    env, _, _, _ = run_movers(backend, 500, 1)
    for tag in env.policy_tags:
        env.act_at_random(tag)
    new = EnvWrapper(Movers(), 500, backend, seed=4)
    for rollout in (run(env, 20), run(new, 20)):
        assert isinstance(rollout.actions, torch.Tensor)
        actions = rollout.actions.flatten(0, 2).flatten(1).double().cpu()
        for component in range(3):
            low, high = LOW.flat[component], HIGH.flat[component]
            values = (actions[:, component].sort().values - low) / (high - low)
            assert values.min() >= 0 and values.max() <= 1
            # Kolmogorov and Smirnov: 30,000 uniform numbers are further from their distribution once in 10**8
            distance = (values - torch.linspace(0, 1, 30_000, dtype=torch.float64)).abs().max()
            assert distance < math.sqrt(math.log(2 / 1e-8) / 2 / 30_000) + 1 / 30_000
        unbounded = actions[:, 3]
        assert abs(unbounded.mean()) < 6 / math.sqrt(30_000) and abs(unbounded.var() - 1) < 6 * math.sqrt(2 / 30_000)
        density = -math.log(2) - math.log(0.5) - math.log(4) - 0.5 * (unbounded**2 + math.log(2 * math.pi))
        torch.testing.assert_close(rollout.log_probabilities.flatten().double().cpu(), density, rtol=1e-4, atol=1e-4)
