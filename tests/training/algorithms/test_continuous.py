"""DDPG, TD3 and SAC: losses and their gradients in float64, targets, noise, learning."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from float64 import Array, Parameters, by_differences, gradients_of, parameters_of, perceptron
from gymnasium import spaces
from resuming import check_goes_on
from torch import nn

import warpdrive as wd
from warpdrive.training.algorithms import Task, build_algorithm
from warpdrive.training.algorithms.common import frozen
from warpdrive.training.algorithms.ddpg import DDPG, DDPGConfig
from warpdrive.training.algorithms.sac import SAC, SACConfig
from warpdrive.training.algorithms.td3 import TD3, TD3Config
from warpdrive.training.experience.replay_buffer import ReplayBuffer
from warpdrive.training.experience.transitions import Transitions
from warpdrive.training.rollout.exploration import NoisyActor
from warpdrive.training.trainer import Trainer

Sections = Callable[..., dict[str, Any]]
TrainerOf = Callable[..., Trainer]
CONFIGS = {"ddpg": DDPGConfig, "td3": TD3Config, "sac": SACConfig}
ROWS, GAMMA = 16, 0.9
ACTIONS = spaces.Box(np.array([-2.0, 0.0], np.float32), np.array([2.0, 1.0], np.float32))


def test_a_frozen_module_is_trained_again_after_an_error_in_its_block() -> None:
    module = nn.Linear(2, 1)
    with pytest.raises(RuntimeError, match="out of memory"), frozen(module):
        assert not any(parameter.requires_grad for parameter in module.parameters())
        raise RuntimeError("out of memory")
    assert all(parameter.requires_grad for parameter in module.parameters())


def made(name: str, **settings: Any) -> Any:
    """An algorithm with small models, whose targets differ from what they follow."""
    config = CONFIGS[name](algorithm=name, gamma=GAMMA, model={"hidden": [5, 4]}, **settings)
    space, backend = spaces.Box(-1, 1, (3,), np.float32), wd.EnvWrapper(env_name="pendulum", env_backend="cpu").backend
    task = Task("agent", torch.tensor([0], dtype=torch.int32), space, ACTIONS, 1, backend, seed=0)
    algorithm, _ = build_algorithm(config, task)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for module in modules_of(algorithm).values():
            for parameter in module.parameters():
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return algorithm


def modules_of(algorithm: Any) -> dict[str, nn.Module]:
    return {name: part for name, part in vars(algorithm).items() if isinstance(part, nn.Module)}


def transitions() -> Transitions:
    generator = torch.Generator().manual_seed(0)
    return Transitions(
        observations=torch.randn(ROWS, 3, generator=generator),
        actions=2 * torch.randn(ROWS, 2, generator=generator),  # as drawn: some of them outside of the Box
        rewards=torch.randn(ROWS, generator=generator),
        next_observations=torch.randn(ROWS, 3, generator=generator),
        terminal=torch.rand(ROWS, generator=generator) < 0.3,
        weight=(torch.rand(ROWS, generator=generator) < 0.8).float(),
    )


class Numbers:
    """Transitions as NumPy arrays in float64."""

    def __init__(self, batch: Transitions) -> None:
        assert isinstance(batch.observations, torch.Tensor) and isinstance(batch.next_observations, torch.Tensor)
        self.observations, self.next_observations = batch.observations.double().numpy(), batch.next_observations.numpy()
        self.rewards, self.weight = batch.rewards.double().numpy(), batch.weight.double().numpy()
        self.going_on = 1.0 - batch.terminal.double().numpy()
        drawn = batch.actions.double().numpy()
        self.clipped = np.stack([np.clip(drawn[:, 0] / 2, -1, 1), np.clip(2 * drawn[:, 1] - 1, -1, 1)], axis=1)
        self.squashed = np.tanh(drawn)

    def mean(self, values: Array) -> Any:
        return (self.weight * values).sum() / self.weight.sum()


def value(parameters: Parameters, critic: str, which: int, seen: Array, actions: Array) -> Array:
    return perceptron(parameters, f"{critic}.values.{which}", np.concatenate([seen, actions], axis=1))[:, 0]


def log_density(drawn: Array, mean: Array, log_std: Array) -> Array:
    """Return the log-density of hyperbolic tangents, by the paper's change of variables."""
    normal = -0.5 * ((drawn - mean) / np.exp(log_std)) ** 2 - log_std - 0.5 * np.log(2 * np.pi)
    return (normal - np.log(1 - np.tanh(drawn) ** 2)).sum(1)  # type: ignore[no-any-return]


def assert_gradient(loss: torch.Tensor, in_float64: Callable[[Parameters], Any], **modules: nn.Module) -> None:
    loss.backward()
    parameters = parameters_of(**modules)
    assert loss.item() == pytest.approx(in_float64(parameters), rel=1e-4)
    found, expected = gradients_of(**modules), by_differences(in_float64, parameters)
    assert any(np.abs(gradient).max() > 1e-2 for gradient in expected.values())
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=2e-3, atol=2e-5, err_msg=name)


def assert_untouched(*modules: nn.Module) -> None:
    """Known mistake: a loss that leaves gradients where it must not."""
    assert all(parameter.grad is None for module in modules for parameter in module.parameters())


def policy_loss_of(numbers: Numbers, fixed: Parameters) -> Callable[[Parameters], Any]:
    """The loss of a deterministic policy for a fixed critic."""

    def policy_loss(p: Parameters) -> Any:
        actions = np.tanh(perceptron(p, "model.policy", numbers.observations))
        return -numbers.mean(value(fixed, "critic", 0, numbers.observations, actions))

    return policy_loss


def test_the_losses_of_ddpg_in_float64() -> None:
    algorithm: DDPG = made("ddpg")
    batch = transitions()
    numbers, fixed = Numbers(batch), parameters_of(**modules_of(algorithm))
    following = numbers.next_observations.astype(np.float64)
    next_actions = np.tanh(perceptron(fixed, "target_model.policy", following))
    later = value(fixed, "target_critic", 0, following, next_actions)
    wanted = numbers.rewards + GAMMA * numbers.going_on * later

    def critic_loss(p: Parameters) -> Any:
        return numbers.mean((value(p, "critic", 0, numbers.observations, numbers.clipped) - wanted) ** 2)

    assert_gradient(algorithm.critic_loss(batch)[0], critic_loss, critic=algorithm.critic)
    assert_untouched(algorithm.model, algorithm.target_critic, algorithm.target_model)
    algorithm.critic.zero_grad(set_to_none=True)

    assert_gradient(algorithm.policy_loss(batch), policy_loss_of(numbers, fixed), model=algorithm.model)


def test_the_losses_of_td3_in_float64() -> None:
    algorithm: TD3 = made("td3", target_noise=0.4, target_noise_clip=0.5)
    batch, noise = transitions(), torch.randn(ROWS, 2, generator=torch.Generator().manual_seed(2))
    numbers, fixed = Numbers(batch), parameters_of(**modules_of(algorithm))
    following = numbers.next_observations.astype(np.float64)
    smoothing = np.clip(0.4 * noise.double().numpy(), -0.5, 0.5)
    assert (np.abs(smoothing) == 0.5).any()
    next_actions = np.clip(np.tanh(perceptron(fixed, "target_model.policy", following)) + smoothing, -1, 1)
    later = np.minimum(*(value(fixed, "target_critic", k, following, next_actions) for k in (0, 1)))
    wanted = numbers.rewards + GAMMA * numbers.going_on * later

    def critic_loss(p: Parameters) -> Any:
        values = (value(p, "critic", k, numbers.observations, numbers.clipped) for k in (0, 1))
        return sum(numbers.mean((each - wanted) ** 2) for each in values)

    assert_gradient(algorithm.critic_loss(batch, noise)[0], critic_loss, critic=algorithm.critic)
    assert_untouched(algorithm.model, algorithm.target_critic, algorithm.target_model)
    algorithm.critic.zero_grad(set_to_none=True)

    assert_gradient(algorithm.policy_loss(batch), policy_loss_of(numbers, fixed), model=algorithm.model)


def test_the_losses_of_sac_in_float64() -> None:
    algorithm: SAC = made("sac", initial_temperature=0.3)
    batch, noise = transitions(), torch.randn(ROWS, 2, generator=torch.Generator().manual_seed(2))
    numbers, fixed = Numbers(batch), parameters_of(**modules_of(algorithm))
    following, drawn_noise = numbers.next_observations.astype(np.float64), noise.double().numpy()
    temperature = float(np.exp(fixed["temperature.logarithm"]))

    def drawn(p: Parameters, seen: Array) -> tuple[Array, Array]:
        mean, log_std = np.split(perceptron(p, "model.policy", seen), 2, axis=1)
        before_tanh = mean + np.exp(log_std) * drawn_noise
        return np.tanh(before_tanh), log_density(before_tanh, mean, log_std)

    next_actions, log_prob = drawn(fixed, following)
    lower = np.minimum(*(value(fixed, "target_critics", k, following, next_actions) for k in (0, 1)))
    wanted = numbers.rewards + GAMMA * numbers.going_on * (lower - temperature * log_prob)

    def critic_loss(p: Parameters) -> Any:
        values = (value(p, "critics", k, numbers.observations, numbers.squashed) for k in (0, 1))
        return sum(numbers.mean(0.5 * (each - wanted) ** 2) for each in values)

    assert_gradient(algorithm.critic_loss(batch, noise)[0], critic_loss, critics=algorithm.critics)
    assert_untouched(algorithm.model, algorithm.target_critics, algorithm.temperature)
    algorithm.critics.zero_grad(set_to_none=True)

    def policy_loss(p: Parameters) -> Any:
        actions, log_prob = drawn(p, numbers.observations)
        lower = np.minimum(*(value(fixed, "critics", k, numbers.observations, actions) for k in (0, 1)))
        return numbers.mean(temperature * log_prob - lower)

    loss, terms = algorithm.policy_loss(batch, noise)
    assert_gradient(loss, policy_loss, model=algorithm.model)
    assert_untouched(algorithm.temperature)
    entropy = -numbers.mean(drawn(fixed, numbers.observations)[1])
    assert terms["entropy"].item() == pytest.approx(entropy, rel=1e-4)

    def temperature_loss(p: Parameters) -> Any:
        return np.exp(p["temperature.logarithm"]) * (entropy + 2)  # the target is minus the two components

    assert_gradient(algorithm.temperature_loss(terms["entropy"]), temperature_loss, temperature=algorithm.temperature)


@pytest.mark.parametrize("name", CONFIGS)
def test_an_update_moves_what_it_must_and_targets_a_little(name: str) -> None:
    """Known mistake: the policy's loss moves the critic."""
    algorithm = made(
        name, learning_starts=0, batch_size=8, tau=0.25, lr=1e-2, **({"policy_delay": 1} if name == "td3" else {})
    )
    buffer = ReplayBuffer("agent", 100, torch.device("cpu"))
    buffer.add(transitions())
    before = {k: {n: p.detach().clone() for n, p in m.named_parameters()} for k, m in modules_of(algorithm).items()}
    losses = algorithm.update(buffer, torch.Generator().manual_seed(0))
    assert {"value_loss", "policy_loss", "q_values", "grad_norm"} <= losses.keys()
    assert all(loss.dim() == 0 and not loss.requires_grad and loss.isfinite() for loss in losses.values())
    for module, parts in before.items():
        now = dict(modules_of(algorithm)[module].named_parameters())
        for part, former in parts.items():
            assert not torch.equal(former, now[part]), (module, part)
            if module.startswith("target"):
                source = dict(modules_of(algorithm)[module.removeprefix("target_")].named_parameters())[part]
                torch.testing.assert_close(now[part], former + 0.25 * (source.detach() - former))
                assert not now[part].requires_grad
            else:
                assert now[part].requires_grad


def test_td3_moves_its_policy_every_other_step() -> None:
    algorithm = made("td3", learning_starts=0, batch_size=8, gradient_steps=1, policy_delay=2)
    buffer = ReplayBuffer("agent", 100, torch.device("cpu"))
    buffer.add(transitions())
    generator, moved = torch.Generator().manual_seed(0), []
    for _ in range(4):
        before = [p.detach().clone() for m in (algorithm.model, algorithm.target_critic) for p in m.parameters()]
        algorithm.update(buffer, generator)
        after = [p for m in (algorithm.model, algorithm.target_critic) for p in m.parameters()]
        moved.append([not torch.equal(one, other) for one, other in zip(before, after, strict=True)])
    assert [any(step) for step in moved] == [all(step) for step in moved] == [False, True, False, True]


CURVE = [[0, 0.5], [100, 0.25]]


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("ddpg", ["lr", "gamma", "tau", "max_grad_norm"]),
        ("td3", ["lr", "gamma", "tau", "max_grad_norm", "target_noise", "target_noise_clip"]),
        ("sac", ["lr", "gamma", "tau", "max_grad_norm", "target_entropy"]),
    ],
)
def test_every_coefficient_may_follow_a_schedule(name: str, keys: list[str]) -> None:
    algorithm = made(name, **{key: CURVE for key in keys if key != "gamma"})
    algorithm.schedules = algorithm.schedules.model_copy(update={"gamma": CURVE})
    for env_steps, expected in ((0, 0.5), (50, 0.375), (1000, 0.25)):
        algorithm.begin(env_steps)
        assert {key: getattr(algorithm.config, key) for key in keys} == dict.fromkeys(keys, expected)
        optimizers = [part for part in algorithm.parts().values() if isinstance(part, torch.optim.Optimizer)]
        assert [optimizer.param_groups[0]["lr"] for optimizer in optimizers] == [expected] * (2 + (name == "sac"))


def test_noise_follows_its_schedule_and_is_logged(sections: Sections, trainer_of: TrainerOf) -> None:
    noise = {
        "type": "ornstein_uhlenbeck",
        "std": {"schedule": "cosine", "start": 0.4, "end": 0.0},
        "decay": [[0, 0.1], [800, 0.3]],
    }
    trainer = trainer_of(aim(sections, "ddpg", noise=noise))  # 2400 steps in all, 200 an update
    policy: Any = trainer.policies["aimer"]
    for env_steps, std, decay in ((0, 0.4, 0.1), (400, 0.373, 0.2), (1200, 0.2, 0.3), (2400, 0.0, 0.3)):
        policy.begin(env_steps)
        assert policy.actor.noise.std.item() == pytest.approx(std, abs=1e-3)
        assert policy.actor.noise.decay.item() == pytest.approx(decay)
        logged = {"learning_rate": 5e-3, "noise_std": pytest.approx(std, abs=1e-3), "noise_decay": pytest.approx(decay)}
        assert policy.coefficients() == logged


def aim(sections: Sections, algorithm: str, **settings: Any) -> dict[str, Any]:
    values = sections("Aim", ("aimer", "chooser"), total_steps=2_400)
    policy = {"lr": 5e-3, "gamma": 0.5, "learning_starts": 1000, "gradient_steps": 60, "batch_size": 64, "tau": 0.02}
    chosen = {
        "algorithm": algorithm,
        "buffer_size": 20_000,
        "model": {"hidden": [64], "activation": "relu"},
        **policy,
        **settings,
    }
    return {**values, "policy": {"aimer": chosen, "chooser": {"algorithm": "random"}}}


@pytest.mark.parametrize("algorithm", CONFIGS)
def test_continuous_actions_are_learned(sections: Sections, trainer_of: TrainerOf, algorithm: str) -> None:
    """At random ``aimer`` loses 8 * 1.08; the seed stays, and runs repeat."""
    trainer = trainer_of(aim(sections, algorithm))
    run = trainer.train().run_folder
    assert trainer.evaluate(num_episodes=200, deterministic=True).mean_return["aimer"] > -1.2
    # and outside of the trainer, which squashes and clips in PyTorch
    policy = wd.load_policy(run, tag="aimer")
    seen = np.linspace(-0.5, 0.5, 11, dtype=np.float32)[:, None]
    actions = policy.act(seen, deterministic=True)
    assert np.abs(actions - np.concatenate([seen, -seen], axis=1)).mean() < 0.1
    assert np.abs(policy.act(seen)).max() <= 1.0


@pytest.mark.parametrize("noise", [{"type": "gaussian", "std": 0.3}, {"type": "ornstein_uhlenbeck", "decay": 0.2}])
def test_noise_and_random_actions_before_learning_starts(
    sections: Sections, trainer_of: TrainerOf, noise: dict[str, Any]
) -> None:
    values = aim(sections, "td3", noise=noise, learning_starts=400)
    trainer = trainer_of(values, "trainer.num_envs=100", "trainer.train_batch_size=1600")
    trainer.collect()
    actions = trainer.rollout.actions["aimer"]  # type: ignore[call-overload]
    # 6400 numbers uniform in [-1, 1], whose mean square is 1 / 3 with a standard error of 0.004
    assert actions.abs().max() <= 1 and actions.square().mean().item() == pytest.approx(1 / 3, abs=0.03)
    trainer.update()
    trainer.collect()
    with torch.no_grad():
        model = trainer.policies["aimer"].model
        means = model.logits(trainer.rollout.of("observations", "aimer")[:-1])[..., :2]
    found = trainer.rollout.of("actions", "aimer") - means
    assert isinstance(trainer.policies["aimer"].actor, NoisyActor)
    begins = slice(8, None, 8)  # episodes of 8 steps; the first one here followed random actions
    if noise["type"] == "gaussian":
        assert found[1:].std().item() == pytest.approx(0.3, abs=0.03)  # standard error 0.003
        steps = found[1:]
        assert (steps[1:] * steps[:-1]).mean().abs() < 0.01
    else:
        # the first of an episode has the standard deviation of a step alone, and each follows the one before
        assert found[begins].std().item() == pytest.approx(0.2, abs=0.04)
        within = torch.arange(1, 16) % 8 != 0
        added = (found[1:] - 0.8 * found[:-1])[within]
        assert added.std().item() == pytest.approx(0.2, abs=0.02) and found[7].std() > 0.25


def test_sac_acts_uniformly_at_random_before_learning_starts(sections: Sections, trainer_of: TrainerOf) -> None:
    """Its own policy begins with hyperbolic tangents of standard normal numbers, which are not uniform."""
    values = aim(sections, "sac", learning_starts=400)
    trainer = trainer_of(values, "trainer.num_envs=100", "trainer.train_batch_size=1600")
    trainer.collect()
    reached = trainer.rollout.of("actions", "aimer").tanh().flatten().sort().values
    uniform = torch.linspace(-1, 1, len(reached))
    # Kolmogorov's statistic of 3200 numbers exceeds 0.03 with probability 2 exp(-2 * 3200 * 0.03^2) = 0.006
    assert (reached - uniform).abs().max() < 2 * 0.03
    log_probabilities = trainer.rollout.of("log_probabilities", "aimer")
    torch.testing.assert_close(log_probabilities, torch.full_like(log_probabilities, -2 * np.log(2.0)))
    trainer.update()
    trainer.collect()
    assert trainer.rollout.of("log_probabilities", "aimer").std() > 0.1
    assert trainer.evaluate(num_episodes=10, deterministic=True).std_return["aimer"] < 10  # and never when evaluated


@pytest.mark.parametrize("algorithm", CONFIGS)
def test_training_goes_on_from_a_checkpoint_as_if_it_had_not_stopped(
    sections: Sections, trainer_of: TrainerOf, tmp_path: Path, algorithm: str
) -> None:
    """Critics, targets, optimizers, noise, statistics, steps that wait for others, the temperature: bit for bit."""
    noise = {} if algorithm == "sac" else {"noise": {"type": "ornstein_uhlenbeck"}}
    normalised: dict[str, Any] = {"model": {"hidden": [64], "normalize_observations": True}}
    whole = trainer_of(
        aim(sections, algorithm, learning_starts=200, gradient_steps=3, n_step=12, **normalised, **noise),
        "trainer.seed=3",
    )
    check_goes_on(whole, tmp_path / "half", updates=4)


def test_squashed_actions_in_the_environment_are_those_of_the_distribution(
    sections: Sections, trainer_of: TrainerOf
) -> None:
    values = aim(sections, "sac", learning_starts=0)
    trainer = trainer_of(values, "trainer.num_envs=100", "trainer.train_batch_size=100")
    policy = trainer.policies["aimer"]
    with torch.no_grad():
        next(reversed(list(policy.model.parameters()))).copy_(torch.tensor([1.0, -2.0, 0.5, -1.0]))  # wide, and narrow
    trainer.collect()
    drawn = trainer.rollout.of("actions", "aimer")[0]
    reached = trainer.env.actions("aimer")
    torch.testing.assert_close(reached, drawn.tanh())
    assert drawn.abs().max() > 2 and reached.abs().max() <= 1
    distribution = policy.config.acting_distribution(trainer.env.action_spaces["aimer"])
    with torch.no_grad():
        logits = policy.model.logits(trainer.rollout.of("observations", "aimer")[0])
    log_prob, _ = distribution.log_prob_and_entropy(logits, drawn)
    torch.testing.assert_close(trainer.rollout.of("log_probabilities", "aimer")[0], log_prob, rtol=1e-4, atol=1e-4)
    # and by PyTorch's own change of variables
    mean, log_std = logits.double().chunk(2, dim=-1)
    normal = torch.distributions.Normal(mean, log_std.exp())
    squashed = torch.distributions.TransformedDistribution(normal, [torch.distributions.TanhTransform(cache_size=1)])
    inner = reached.double().abs().amax(-1) < 0.999
    expected = squashed.log_prob(reached.double()).sum(-1)
    torch.testing.assert_close(log_prob.double()[inner], expected[inner], rtol=1e-2, atol=1e-2)
