"""Gradient steps as CUDA graphs, recorded on the CPU and captured on a GPU, compared with PyTorch's."""

import contextlib
import copy
import warnings

import pytest
import torch
from exhaustive import exhaustive
from gymnasium import spaces
from recorded_operations import OperationRecorder

import warpdrive as wd
from warpdrive.step_graph import GraphError, StepGraphs
from warpdrive.training.algorithms.ppo import PPO, PPOConfig
from warpdrive.training.algorithms.static_step import StaticStep
from warpdrive.training.algorithms.task import adam
from warpdrive.training.experience.batch import Batch
from warpdrive.training.models import build_actor_critic, seeded
from warpdrive.training.models.fully_connected import FullyConnected

CASES = {
    "ppo": ("Echo", "odd", "{algorithm: ppo, minibatches: 3, value_clip: 0.3, target_kl: 1e-5}"),
    "ppo, agents leave": ("Leave", "inner", "{algorithm: ppo, value_loss: huber, normalize_returns: true}"),
    "ppo, gru": ("Leave", "inner", "{algorithm: ppo, minibatches: 3, model: {type: gru, hidden: [8], units: 8}}"),
    "ppo, box": ("Aim", "aimer", "{algorithm: ppo, model: {normalize_observations: true}}"),
    "mappo": ("Echo", "odd", "{algorithm: ppo, centralized_critic: true, target_kl: 1e-5, critic_lr: 0.02}"),
    "a2c": ("Echo", "odd", "{algorithm: a2c}"),
    "a2c, v-trace": ("Echo", "odd", "{algorithm: a2c, steps_per_update: 20}"),
    "reinforce": ("Fuse", "one", "{algorithm: reinforce}"),
    "pqn": ("Echo", "odd", "{algorithm: pqn, minibatches: 3}"),
    "dqn": ("Echo", "odd", "{algorithm: dqn, learning_starts: 0, gradient_steps: 3, target_update_every: 2}"),
    "pqn, vdn": ("Echo", "odd", "{algorithm: pqn, mixing: vdn, minibatches: 3}"),
    "vdn": ("Echo", "odd", "{algorithm: vdn, learning_starts: 0, gradient_steps: 3, target_update_every: 2}"),
    "qmix": ("Revealed", "odd", "{algorithm: qmix, learning_starts: 0, td_lambda: [[0, 0.0], [1000, 1.0]]}"),
    "ddpg": ("Aim", "aimer", "{algorithm: ddpg, learning_starts: 0, gradient_steps: 2}"),
    "td3": ("Aim", "aimer", "{algorithm: td3, learning_starts: 0, gradient_steps: 5}"),
    "sac": ("Aim", "aimer", "{algorithm: sac, learning_starts: 0, gradient_steps: 2}"),
}
USUAL = ("ppo, gru", "dqn", "sac")
TAGS = {
    "Echo": ("even", "odd"),
    "Revealed": ("even", "odd"),
    "Leave": ("outer", "inner"),
    "Fuse": ("one", "others"),
    "Aim": ("aimer", "chooser"),
}


@pytest.fixture
def recorder(monkeypatch):
    """Records the gradient steps of policies on the CPU, unless ``trainer.use_cuda_graph`` is off."""
    found = OperationRecorder()
    monkeypatch.setattr(
        "warpdrive.training.policy.StepGraphs", lambda device, use, work: StepGraphs(device, use, found, work)
    )
    return found


def policies_of(sections, case, **trainer):
    """The sections of a run in which the policy of a case learns from its own rollouts, and its tag."""
    game, tag, policy = CASES[case]
    return (
        sections(game, TAGS[game], update="torch", **trainer),
        [f"policy.{tag}={policy}", f"policy.{tag}.lr=1e-2"],
        tag,
    )


def learned(trainer, tag, updates):
    """Metrics of some updates, which do not synchronise, the model's parameters and the optimizers' state."""
    metrics = []
    for _ in range(updates):
        with wd.no_host_transfers(trainer.env.device):
            trainer.collect()
            terms = trainer.update()
        metrics.append({name: value.item() for name, value in terms.items() if name.endswith(tag)})
    return metrics, *state_of(trainer.policies[tag])


def state_of(policy):
    optimizers = [part for part in policy.algorithm.parts().values() if isinstance(part, torch.optim.Optimizer)]
    return policy.model.state_dict(), [optimizer.state_dict() for optimizer in optimizers]


@pytest.mark.parametrize("case", exhaustive(CASES, USUAL))
def test_recorded_steps_equal_pytorchs(sections, trainer_of, recorder, case):
    """Up to rounding: copied rows are aligned otherwise."""
    values, overrides, tag = policies_of(sections, case)
    found = learned(trainer_of(values, *overrides), tag, updates=3)
    assert recorder.replayed > recorder.recorded
    expected = learned(trainer_of(values, *overrides, "trainer.use_cuda_graph=off"), tag, updates=3)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5, equal_nan=True)


ROWS, ACTIONS = 77, 5
SCHEDULES = {
    "lr": [[0, 2.0**-6], [10, 2.0**-8]],  # exact in float32, as which fused Adam reads it
    "clip": [[0, 0.3], [10, 0.02]],
    "value_clip": [[0, 0.01], [10, 1.0]],
    "value_coef": [[0, 0.5], [10, 2.0]],
    "entropy_coef": [[0, 0.0], [10, 0.5]],
    "huber_delta": [[0, 2.0], [10, 0.1]],
    "max_grad_norm": [[0, 0.5], [10, 0.05]],
    "target_kl": [[0, 1e-2], [10, 10.0]],
}


def ppo():
    """PPO in float64 with schedules of all its coefficients, and rows, of which some do not count."""
    config = PPOConfig.model_validate(
        {"algorithm": "ppo", "minibatches": 3, "value_loss": "huber", "normalize_returns": True, **SCHEDULES}
    )
    space, choices = spaces.Box(-1.0, 1.0, (4,)), spaces.Discrete(ACTIONS)
    with seeded(1):
        model = build_actor_critic(config.model, space, choices).double()
        rows = {name: torch.randn(ROWS, dtype=torch.float64) for name in ("values", "advantages", "returns")}
        actions = torch.randint(ACTIONS, (ROWS,), dtype=torch.int32)
        mask = (torch.rand(ROWS, ACTIONS) < 0.7).scatter(1, actions.long().unsqueeze(1), True)
        batch = Batch(
            observations=torch.randn(ROWS, 4, dtype=torch.float64),
            actions=actions,
            log_probabilities=-mask.sum(1).double().log(),  # the new policy is nearly uniform
            weight=(torch.rand(ROWS) < 0.8).double(),
            action_mask=mask,
            **rows,
        )
    model.flatten.register_forward_hook(lambda module, given, flat: flat.double())
    return PPO(config, model, config.acting_distribution(choices), adam(model, eps=1e-5)), batch


def recorded_ppo():
    algorithm, batch = ppo()
    recorder = OperationRecorder()
    graphs = StepGraphs(torch.device("cpu"), "on", recorder, "the update of 'odd'")
    algorithm.static_step = StaticStep(algorithm, graphs)
    return algorithm, batch, recorder


def updated(algorithm, batch):
    generator, metrics = torch.Generator().manual_seed(3), []
    for env_steps in (0, 5, 10):
        algorithm.begin(env_steps)
        metrics.append({name: value.item() for name, value in algorithm.update(batch, generator).items()})
    return metrics, algorithm.model.state_dict(), algorithm.optimizer.state_dict()


def test_scheduled_coefficients_are_read_by_replays_in_float64():
    """Parameters, moments, step counts, metrics and skipped steps of three updates with changing coefficients."""
    algorithm, batch, recorder = recorded_ppo()
    found, expected = updated(algorithm, batch), updated(*ppo())
    torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-9)
    assert (recorder.recorded, recorder.replayed) == (2, 3 * 4 * 3)  # minibatches of 26 and of 25 rows
    skipped = [metrics["skipped_steps"] for metrics in found[0]]
    assert 0 < skipped[0] < 1
    assert found[2]["state"][0]["step"] == round(12 * (3 - sum(skipped)))
    assert type(found[2]["param_groups"][0]["lr"]) is float and not found[2]["param_groups"][0]["capturable"]


def test_a_loaded_state_of_the_optimizer_is_used():
    """Loading replaces the tensors that were captured."""
    algorithm, batch, recorder = recorded_ppo()
    parts = (algorithm.model, algorithm.optimizer, algorithm.returns)
    start, results = copy.deepcopy([part.state_dict() for part in parts]), []
    for _ in range(2):
        for part, state in zip(parts, copy.deepcopy(start), strict=True):
            part.load_state_dict(state)
        results.append(copy.deepcopy(updated(algorithm, batch)))
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=0)
    assert recorder.recorded == 4


def looking(self, observations):
    """A forward pass that reads the device."""
    features = self.trunk(self.flatten(observations))
    return self.policy(features) * (1.0 if features.isfinite().all() else 0.0), self.value(features).squeeze(-1)


def test_what_cannot_be_captured_is_told_once_and_taken_by_pytorch(sections, trainer_of, recorder, monkeypatch):
    values, overrides, tag = policies_of(sections, "ppo")
    by_hand = trainer_of(values, *overrides, "trainer.use_cuda_graph=off")
    monkeypatch.setattr(FullyConnected, "forward", looking)
    trainer, reason = trainer_of(values, *overrides), r"the update of 'odd' runs without a CUDA graph, .*bool\(tensor\)"
    for each in (by_hand, trainer):
        each.collect()
        told = pytest.warns(RuntimeWarning, match=reason) if each is trainer else contextlib.nullcontext()
        with told as warned:
            each.policies[tag].update(each.rollout)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            each.policies[tag].update(each.rollout)
    assert len(warned) == 1 and recorder.recorded == 0
    found, expected = (state_of(each.policies[tag]) for each in (trainer, by_hand))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_on_does_not_fall_back(monkeypatch):
    monkeypatch.setattr(FullyConnected, "forward", looking)
    algorithm, batch, _ = recorded_ppo()
    before = copy.deepcopy(algorithm.model.state_dict())
    with pytest.raises(GraphError, match=r"a step of the update of 'odd' cannot be captured: .*bool\(tensor\)"):
        updated(algorithm, batch)
    torch.testing.assert_close(algorithm.model.state_dict(), before, rtol=0, atol=0)


class MyPPO(wd.PPO):
    """PPO of a user."""


def test_reasons_are_known(sections, trainer_of, recorder):
    values, overrides, tag = policies_of(sections, "ppo")
    reason = lambda *more: trainer_of(values, *overrides, *more).policies[tag].algorithm.not_captured  # noqa: E731
    assert reason() == ""
    assert reason("trainer.use_cuda_graph=off") == "there are no CUDA graphs on the CPU"
    assert reason(f"policy.{tag}.function={__file__}:MyPPO") == "the algorithm is user-defined"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("case", CASES)
def test_captured_steps_equal_pytorchs_on_a_gpu(sections, trainer_of, case):
    """One update, whose result is compared, as sums on a GPU have no fixed order; a second one replays."""
    values, overrides, tag = policies_of(sections, case, env_backend="numba")
    results = []
    for use in ("on", "off"):
        trainer = trainer_of(values, *overrides, f"trainer.use_cuda_graph={use}")
        results.append(copy.deepcopy(learned(trainer, tag, updates=1)))
        learned(trainer, tag, updates=1)
    torch.testing.assert_close(results[0], results[1], rtol=1e-3, atol=1e-4, equal_nan=True)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_replays_on_a_gpu_read_scheduled_coefficients(sections, trainer_of):
    """A learning rate of nearly zero leaves the parameters as they are."""
    values, overrides, tag = policies_of(sections, "ppo", env_backend="numba")
    trainer = trainer_of(values, *overrides, f"policy.{tag}.lr=[[0, 1e-2], [400, 1e-12]]", "trainer.use_cuda_graph=on")
    model, moved = trainer.policies[tag].model, []
    for _ in range(4):
        before = copy.deepcopy(model.state_dict())
        trainer.collect()
        trainer.update()
        moved.append(max((now - before[name]).abs().max().item() for name, now in model.state_dict().items()))
    assert moved[0] > 1e-3 and moved[3] < 1e-7
