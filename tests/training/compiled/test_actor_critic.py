"""Compiled updates of DDPG, TD3 and SAC compared with PyTorch's in float64: metrics and all state."""

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from exhaustive import exhaustive
from gymnasium import spaces

from warpdrive.backends.host import workers
from warpdrive.training.algorithms.ddpg import DDPG, DDPGConfig
from warpdrive.training.algorithms.sac import SAC, SACConfig, Temperature
from warpdrive.training.algorithms.task import Task, adam
from warpdrive.training.algorithms.td3 import TD3, TD3Config
from warpdrive.training.experience.replay_buffer import ReplayBuffer
from warpdrive.training.experience.transitions import Transitions
from warpdrive.training.models import seeded
from warpdrive.training.models.continuous import Critic
from warpdrive.training.rollout.exploration import GaussianNoise, GaussianNoiseConfig, NoisyActor

CONFIGS = {"ddpg": DDPGConfig, "td3": TD3Config, "sac": SACConfig}
ROWS = 400


@dataclass
class Case:
    algorithm: str
    components: int = 2
    size: int = 5
    model: dict = field(default_factory=dict)
    options: dict = field(default_factory=dict)
    steps: bool = False


CASES = {
    "ddpg": Case("ddpg"),
    "ddpg, clipped": Case("ddpg", 1, 17, {"hidden": [33], "activation": "relu"}, {"max_grad_norm": 0.01}),
    "td3": Case("td3", options={"gradient_steps": 5, "policy_delay": 2}),
    "td3 with much noise": Case("td3", 3, 4, {"activation": "elu"}, {"target_noise": 1.5, "target_noise_clip": 0.9}),
    "td3 with a rare policy": Case("td3", options={"gradient_steps": 2, "policy_delay": 4}),
    "sac": Case("sac"),
    "sac, n-step": Case("sac", 1, 3, {"hidden": [20], "activation": "silu"}, {"max_grad_norm": 0.1}, steps=True),
    "sac with layer norm": Case(
        "sac", 3, 16, {"layer_norm": True}, {"target_entropy": 0.5, "initial_temperature": 0.1}
    ),
    "normalised": Case("sac", model={"normalize_observations": True, "hidden": []}),
    "parts": Case("sac", options={"batch_size": 1100, "gradient_steps": 3}),
}
FURTHER = {"td3", "td3 with a rare policy", "sac", "normalised"}
"""Cases that combine what others have one by one."""


def algorithm_of(case, dtype, update):
    options = {"lr": 3e-3, "gamma": 0.9, "tau": 0.1, "batch_size": 77, "gradient_steps": 4, "learning_starts": 0}
    model_options = {"hidden": [24, 40], **case.model}
    config = CONFIGS[case.algorithm](**{"algorithm": case.algorithm, "model": model_options, **options, **case.options})
    space = spaces.Box(-np.inf, np.inf, (case.size,))
    actions = spaces.Box(-2.0, 3.0, (case.components,))
    with seeded(5):
        model = config.build_model(space, actions)
        critic = Critic(model.flatten, space, case.components, config.model, 1 if case.algorithm == "ddpg" else 2)
    with torch.no_grad():  # initial actions are nearly equal
        model.policy[-1].weight *= 50.0
    if model.flatten.moments is not None:
        model.flatten.observe(torch.linspace(-1, 3, 40 * case.size).view(40, case.size), torch.ones(40))
    model.flatten.register_forward_hook(lambda module, given, flat: flat.to(dtype))
    model, critic = model.to(dtype), critic.to(dtype)
    if case.algorithm == "sac":
        temperature = Temperature(config.initial_temperature).to(dtype)
        algorithm = SAC(config, model, critic, temperature, adam(model), adam(critic), adam(temperature))
    else:
        kind, noise = {"ddpg": DDPG, "td3": TD3}[case.algorithm], GaussianNoise(GaussianNoiseConfig())
        algorithm = kind(config, model, critic, NoisyActor(model, noise), adam(model), adam(critic))
    task = Task("agent", None, space, actions, 1, None, 5, update=update)
    algorithm.compile_steps(task, *([case.algorithm == "td3"] if case.algorithm != "sac" else []))
    algorithm.begin(0)
    assert algorithm.is_compiled or update != "compiled"
    return algorithm


def buffer_of(case):
    draw = torch.Generator().manual_seed(1)
    normal = lambda *shape: torch.randn(*shape, generator=draw)  # noqa: E731
    buffer = ReplayBuffer("agent", ROWS, torch.device("cpu"))
    rows = Transitions(
        observations=2.0 * normal(ROWS, case.size),
        actions=0.5 + 2.0 * normal(ROWS, case.components),  # some of them outside of the Box
        rewards=normal(ROWS),
        next_observations=2.0 * normal(ROWS, case.size),
        terminal=torch.rand(ROWS, generator=draw) < 0.2,
        weight=(torch.rand(ROWS, generator=draw) < 0.9).float(),
        steps=torch.randint(1, 4, (ROWS,), generator=draw).float() if case.steps else None,
    )
    buffer.add(rows)
    return buffer


def updated(case, dtype, update, updates=2):
    """Metrics of updates, and all state afterwards, by name."""
    algorithm, buffer, generator = algorithm_of(case, dtype, update), buffer_of(case), torch.Generator().manual_seed(7)
    metrics = [algorithm.update(buffer, generator) for _ in range(updates)]
    state = {f"model {name}": value for name, value in algorithm.model.state_dict().items()}
    for name, part in algorithm.parts().items():
        if isinstance(part, torch.optim.Optimizer):
            ((moments,),) = [part.state.values()]
            state |= {f"{name} {key}": value for key, value in moments.items()}
        else:
            state |= {f"{name} {key}": torch.as_tensor(value) for key, value in part.state_dict().items()}
    return metrics, {name: value.detach().clone() for name, value in state.items()}


@pytest.mark.parametrize("name", exhaustive(CASES, CASES.keys() - FURTHER))
def test_compiled_updates_equal_those_of_pytorch_in_float64(name):
    case = CASES[name]
    metrics, state = updated(case, torch.float32, "compiled")
    expected, expected_state = updated(case, torch.float64, "torch")
    for found, wanted in zip(metrics, expected, strict=True):
        assert list(found) == list(wanted)
        for name in found:
            assert found[name].item() == pytest.approx(wanted[name].item(), rel=2e-5, abs=2e-6), name
    before = algorithm_of(case, torch.float64, "torch").model.state_dict()
    moved = [(expected_state[f"model {name}"] - value).abs().max() for name, value in before.items()]
    assert max(moved) > 1e-3
    assert list(state) == list(expected_state)
    for name, value in state.items():
        scale = max(1e-3, expected_state[name].abs().max().item()) if "exp_avg" in name else 1.0
        torch.testing.assert_close(
            value.double(),
            expected_state[name].double(),
            rtol=1e-4,
            atol=2e-5 * scale,
            msg=lambda m, n=name: f"{n}: {m}",
        )


def test_results_do_not_depend_on_the_number_of_threads(monkeypatch):
    found = []
    for count in (1, 2, 3):
        monkeypatch.setattr(workers, "_num_threads", count)
        found.append(updated(CASES["parts"], torch.float32, "compiled"))
    for metrics, state in found[1:]:
        assert metrics == found[0][0]
        assert all(value.equal(found[0][1][name]) for name, value in state.items())


def test_what_is_not_compiled_is_left_to_pytorch():
    reason = "the network has 66 outputs, more than 64"
    assert algorithm_of(Case("sac", components=33), torch.float32, "auto").not_compiled == reason
    assert algorithm_of(Case("td3"), torch.float32, "torch").not_compiled == "trainer.update: torch"


def test_steps_are_taken_in_parts_if_their_rows_are_large(monkeypatch):
    expected, state = updated(CASES["td3"], torch.float32, "compiled")
    monkeypatch.setattr("warpdrive.training.algorithms.off_policy._FLOATS_AT_ONCE", 2000)  # two steps of five
    found, same = updated(CASES["td3"], torch.float32, "compiled")
    assert all(same[name].equal(value) for name, value in state.items())
    for metrics, wanted in zip(found, expected, strict=True):
        assert {name: value.item() for name, value in metrics.items()} == pytest.approx(
            {name: value.item() for name, value in wanted.items()}, rel=1e-6
        )
