"""Compiled updates compared with PyTorch's in float64: terms, gradients, optimizer state and parameters."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from exhaustive import exhaustive
from gymnasium import spaces

from warpdrive.backends.host import workers
from warpdrive.errors import ConfigError
from warpdrive.training.algorithms.a2c import A2C, A2CConfig
from warpdrive.training.algorithms.ppo import PPO, PPOConfig
from warpdrive.training.algorithms.task import Task, adam
from warpdrive.training.distributed.process_group import UNSHARDED, ProcessGroup, Sharding
from warpdrive.training.experience.batch import Batch
from warpdrive.training.experience.sequences import Sequences, outputs
from warpdrive.training.models import build_actor_critic, seeded

BOX = spaces.Box(-2.0, 3.0, (3,))


@dataclass
class Case:
    actions: spaces.Space = field(default_factory=lambda: spaces.Discrete(2))
    hidden: tuple = (64, 64)
    size: int = 4
    rows: int = 300
    steps: int = 0
    model: dict = field(default_factory=dict)
    options: dict = field(default_factory=dict)
    algorithm: str = "ppo"
    masked: bool = False
    absent: bool = False


CASES = {
    "plain": Case(),
    "odd widths": Case(spaces.Discrete(7), (33, 17, 5), 13, 77),
    "no hidden layers": Case(spaces.Discrete(3), (), 21, 40),
    "several choices": Case(spaces.MultiDiscrete([2, 5, 3]), (16,), 6, options={"entropy_coef": 0.3}),
    "shared trunk": Case(hidden=(24, 40), model={"trunk": "shared", "activation": "relu"}),
    "shared trunk of one layer": Case(hidden=(24,), model={"trunk": "shared"}, options={"minibatches": 5}),
    "masked": Case(spaces.Discrete(5), masked=True, absent=True, options={"minibatches": 3}),
    "several masked choices": Case(spaces.MultiDiscrete([3, 4]), (20,), masked=True),
    "box": Case(BOX, (32, 32), model={"initial_log_std": -0.5}, options={"entropy_coef": 0.02}),
    "box in its own units": Case(BOX, (32,), model={"normalize_actions": False, "trunk": "shared"}, absent=True),
    "deviations of the state": Case(BOX, (32,), model={"state_dependent_std": True, "trunk": "shared"}),
    "limited deviations": Case(BOX, (8,), model={"state_dependent_std": True, "initial_log_std": 1.9}, algorithm="a2c"),
    "squashed": Case(BOX, (32, 32), model={"squash_actions": True}, options={"entropy_coef": 0.2}, absent=True),
    "squashed deviations of the state": Case(BOX, model={"squash_actions": True, "state_dependent_std": True}),
    "clipped values": Case(options={"value_clip": 0.1, "value_coef": 1.3}),
    "huber": Case(options={"value_loss": "huber", "huber_delta": 0.4, "value_clip": 0.2}),
    "normalised": Case(model={"normalize_observations": True}, options={"normalize_returns": True}),
    "unclipped gradient": Case(options={"max_grad_norm": 1e9, "normalize_advantage": False, "clip": 0.05}),
    "early stopping": Case(options={"target_kl": 0.02, "lr": 1e-2, "epochs": 6}),
    "parts": Case(rows=2500, options={"minibatches": 2}, absent=True),
    "layer norm": Case(hidden=(24, 40), model={"layer_norm": True, "activation": "relu"}),
    "layer norm in a shared trunk": Case(hidden=(33,), model={"layer_norm": True, "trunk": "shared"}),
    "elu": Case(hidden=(20, 12), model={"activation": "elu"}),
    "silu": Case(hidden=(20, 12), model={"activation": "silu", "layer_norm": True}),
    "a2c": Case(algorithm="a2c", absent=True, options={"value_loss": "huber"}),
    "a2c in a box": Case(BOX, (48,), algorithm="a2c"),
    "gru": Case(hidden=(24,), steps=20, model={"type": "gru", "units": 32}, absent=True),
    "lstm": Case(hidden=(16, 20), rows=1300, steps=13, model={"type": "lstm", "units": 9, "trunk": "separate"}),
    "lstm without encoder": Case(BOX, (), rows=180, steps=9, model={"type": "lstm", "units": 7, "trunk": "shared"}),
    "mingru": Case(spaces.Discrete(3), (7,), steps=6, model={"type": "mingru", "units": 5}, masked=True),
    "a2c with memory": Case(hidden=(8,), steps=50, model={"type": "gru", "units": 16}, algorithm="a2c"),
}
FURTHER = {
    "shared trunk of one layer",
    "squashed deviations of the state",
    "layer norm in a shared trunk",
    "a2c in a box",
    "lstm without encoder",
    "a2c with memory",
    "several choices",
    "box",
    "clipped values",
    "elu",
    "unclipped gradient",
}
"""Cases that combine what others have one by one."""


def config_of(case):
    model = {"hidden": list(case.hidden), **case.model}
    options = {"lr": 3e-3, "normalize_advantage": True, **case.options}
    if case.algorithm == "ppo":
        options = {"epochs": 3, "minibatches": 4, **options}
    kind = PPOConfig if case.algorithm == "ppo" else A2CConfig
    return kind.model_validate({"algorithm": case.algorithm, "model": model, **options})


def batch_of(case, model, distribution, dtype=torch.float32):
    """Random rows, as a rollout of the model would have them before some updates."""
    draw = np.random.default_rng(1)
    normal = lambda *shape: torch.from_numpy(draw.normal(size=shape)).float()  # noqa: E731
    observations = 2.0 * normal(case.rows, case.size)
    mask = sequences = None
    if case.steps:
        count = case.rows // case.steps
        begins = torch.from_numpy(draw.random((case.steps, count)) < 0.1)
        sequences = Sequences(normal(count, model.state_size), begins)
    if case.masked:
        mask = torch.from_numpy(draw.random((case.rows, distribution.num_outputs + 2)) < 0.6)
        mask[::7] = False  # nothing allowed: all options are
    with torch.no_grad():
        logits, _ = outputs(model, observations, sequences)
        actions = distribution.sample(logits, torch.Generator().manual_seed(2), mask)
        actions = actions.squeeze(-1).int() if actions.dtype == torch.int64 and actions.shape[-1] == 1 else actions
        actions = actions.int() if actions.dtype == torch.int64 else actions
        log_prob, _ = distribution.log_prob_and_entropy(logits + 0.2 * normal(*logits.shape), actions, mask)
    weight = torch.ones(case.rows)
    if case.absent:
        weight = torch.from_numpy((draw.random(case.rows) < 0.7).astype(np.float32))
    batch = Batch(
        observations=observations,
        actions=actions,
        log_probabilities=log_prob,
        values=normal(case.rows),
        advantages=normal(case.rows) * weight,
        returns=3.0 * normal(case.rows),
        weight=weight,
        action_mask=mask,
    )
    floats = {name: column.to(dtype) for name, column in batch.columns().items() if column.is_floating_point()}
    sequences = sequences and replace(sequences, start=sequences.start.to(dtype))
    return replace(batch, sequences=sequences, **floats)


def algorithm_of(case, dtype, update):
    config, space = config_of(case), spaces.Box(-np.inf, np.inf, (case.size,))
    with seeded(5):
        model = build_actor_critic(config.model, space, case.actions)
    if model.flatten.moments is not None:
        model.flatten.observe(torch.linspace(-1, 3, 40 * case.size).view(40, case.size), torch.ones(40))
    with torch.no_grad():  # the initial policy is nearly uniform
        model.policy[-1].weight *= 50.0
    model = model.to(dtype)
    model.flatten.register_forward_hook(lambda module, given, flat: flat.to(dtype))
    distribution = config.acting_distribution(case.actions)
    kind = PPO if case.algorithm == "ppo" else A2C
    algorithm = kind(config, model, distribution, adam(model, eps=1e-5))
    task = Task("agent", None, space, case.actions, 1, None, 5, update=update)
    algorithm.compile_actor_critic(task, kind)
    return algorithm


def updated(case, dtype, update, updates=2, sharding=UNSHARDED):
    algorithm = algorithm_of(case, dtype, update)
    batch = batch_of(case, algorithm_of(case, torch.float32, "torch").model, algorithm.distribution, dtype)
    batch = replace(batch, sharding=sharding)
    generator = torch.Generator().manual_seed(7)
    metrics = [algorithm.update(batch, generator) for _ in range(updates)]
    ((state,),) = [algorithm.optimizer.state.values()]
    (vector,) = algorithm.optimizer.param_groups[0]["params"]
    return metrics, state, vector.detach()


@pytest.mark.parametrize("which", exhaustive(CASES, CASES.keys() - FURTHER))
def test_compiled_updates_equal_those_of_pytorch_in_float64(which):
    case = CASES[which]
    metrics, state, vector = updated(case, torch.float32, "compiled")
    expected, expected_state, expected_vector = updated(case, torch.float64, "torch")
    for found, wanted in zip(metrics, expected, strict=True):
        assert list(found) == list(wanted)
        for name in found:
            # a ratio at the clipping boundary counts on one side of it: a row of 300, in one of 3 epochs, is 1.1e-3
            tolerance = 2.5e-3 if name == "clipfrac" else 2e-6
            assert found[name].item() == pytest.approx(wanted[name].item(), rel=2e-5, abs=tolerance), name
    assert state["step"] == expected_state["step"]
    for name in ("exp_avg", "exp_avg_sq"):
        scale = expected_state[name].abs().max().item()
        torch.testing.assert_close(state[name].double(), expected_state[name], rtol=1e-4, atol=2e-6 * scale)
    moved = (expected_vector - algorithm_of(case, torch.float64, "torch").optimizer.param_groups[0]["params"][0]).abs()
    assert moved.max() > 1e-3  # the parameters have changed
    torch.testing.assert_close(vector.double(), expected_vector, rtol=1e-5, atol=2e-5)


def test_early_stopping_skips_some_steps():
    metrics, state, _ = updated(CASES["early stopping"], torch.float32, "compiled", updates=1)
    assert 0 < metrics[0]["skipped_steps"] < 1
    assert state["step"] == round((1 - metrics[0]["skipped_steps"].item()) * 24)


@pytest.mark.parametrize("name", ["parts", "lstm"])
def test_results_do_not_depend_on_the_number_of_threads(monkeypatch, name):
    """Nor on that of processes without rows."""
    found = []
    for count in (1, 2, 3):
        monkeypatch.setattr(workers, "_num_threads", count)
        for sharding in (UNSHARDED, Sharding(ProcessGroup.of(0, 2))):
            found.append(updated(CASES[name], torch.float32, "compiled", sharding=sharding))
    for metrics, state, vector in found[1:]:
        assert metrics == found[0][0]
        assert torch.equal(vector, found[0][2])
        assert torch.equal(state["exp_avg_sq"], found[0][1]["exp_avg_sq"])


def test_nan_goes_through():
    case = CASES["plain"]
    algorithm = algorithm_of(case, torch.float32, "compiled")
    batch = batch_of(case, algorithm.model, algorithm.distribution)
    batch.observations[17, 2] = torch.nan
    metrics = algorithm.update(batch, torch.Generator().manual_seed(7))
    assert all(metrics[name].isnan() for name in ("policy_loss", "value_loss", "entropy", "grad_norm"))
    assert all(parameter.isnan().any() for parameter in algorithm.model.parameters())


def test_native_code_is_required_on_request(sections, trainer_of):
    """It is an error where there is none, and the reason is known otherwise."""
    reinforce, reason = "policy.odd={algorithm: reinforce}", "native code computes its perceptrons only"
    assert trainer_of(sections(), reinforce).policies["odd"].algorithm.not_compiled == reason
    told = f"trainer.update: found 'compiled', but policy 'odd': {reason}"
    with pytest.raises(ConfigError, match=told):
        trainer_of(sections(), reinforce, "trainer.update=compiled")


@pytest.mark.parametrize(
    "policy",
    [
        "{algorithm: pqn, model: {layer_norm: false, hidden: [20]}, max_grad_norm: 1e-3}",
        "{algorithm: dqn, learning_starts: 0, double: true, n_step: 2, model: {activation: silu, hidden: [33, 8]}}",
        "{algorithm: ppo, centralized_critic: true, critic_lr: 1e-2, lr: 1e-2, target_kl: 1e-4, epochs: 6}",
        "{algorithm: ppo, centralized_critic: true, minibatches: 3, model: {type: lstm, units: 8, trunk: separate}}",
        *exhaustive(
            [
                "{algorithm: pqn, minibatches: 3}",
                "{algorithm: dqn, batch_size: 37, gradient_steps: 5, learning_starts: 0, lr: 1e-2, "
                "target_update_every: 3}",
                "{algorithm: ppo, centralized_critic: true, minibatches: 3}",
                "{algorithm: ppo, centralized_critic: true, critic_max_grad_norm: 0.1, model: {trunk: shared}}",
            ],
            (),
        ),
    ],
)
def test_runs_learn_as_in_pytorch(sections, trainer_of, policy):
    """Two updates of a run, whose later actions depend on what the first one learned."""
    learned = {}
    for update in ("torch", "compiled"):
        trainer = trainer_of(sections(), f"policy.odd={policy}", f"trainer.update={update}")
        metrics = {}
        for _ in range(2):
            trainer.collect()
            metrics = trainer.update()
        vector = torch.cat([parameter.detach().flatten() for parameter in trainer.models["odd"].parameters()])
        learned[update] = vector, {name: value for name, value in metrics.items() if name.endswith("odd")}
    (found, found_metrics), (expected, expected_metrics) = learned["compiled"], learned["torch"]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=2e-5)
    assert list(found_metrics) == list(expected_metrics) and len(found_metrics) >= 3
    for name in found_metrics:
        assert found_metrics[name].item() == pytest.approx(expected_metrics[name].item(), rel=1e-4, abs=1e-5), name
