"""Rollouts as CUDA graphs, on a GPU: equal results, no synchronisation, and fallback after a failed capture."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import warpdrive as wd
from warpdrive.backends.loading import load_backend
from warpdrive.step_graph import GraphError
from warpdrive.training.experience.advantages import AdvantageEstimator
from warpdrive.training.models.fully_connected import FullyConnected
from warpdrive.training.trainer import Trainer

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")]

Sections = Callable[..., dict[str, Any]]
TrainerOf = Callable[..., Trainer]
TAGS = {"Echo": ("even", "odd"), "Leave": ("outer", "inner"), "Fuse": ("one", "others"), "Aim": ("aimer", "chooser")}


def of_game(sections: Sections, game: str = "Echo", **trainer: Any) -> dict[str, Any]:
    return sections(game, TAGS[game], env_backend="numba", **trainer)


def cartpole(sections: Sections, **trainer: Any) -> dict[str, Any]:
    pytest.importorskip("pycuda")
    values = sections("Echo", ("agent",), env_backend="pycuda", **trainer)
    return {**values, "name": "cartpole", "env": {"name": "cartpole"}}


def recorded(trainer: Trainer) -> dict[str, Tensor]:
    """Copies of all tensors that a rollout has."""
    found = {"state": trainer.env.ctx.save_state()}
    for name, value in vars(trainer.rollout).items():
        if isinstance(value, Tensor):
            found[name] = value.clone()
        elif name in ("observations", "actions", "final_observations"):  # by tag
            found |= {f"{name}.{tag}": part.clone() for tag, part in value.items()}
    return found


@pytest.mark.parametrize("game", [*TAGS, "cartpole with pycuda", "Leave with an LSTM"])
def test_results_are_the_same_with_and_without_bit_for_bit(
    sections: Sections, trainer_of: TrainerOf, game: str
) -> None:
    values = cartpole(sections) if "pycuda" in game else of_game(sections, game.split()[0])
    for policy in values["policy"].values():
        policy["model"] = {"type": "lstm" if "LSTM" in game else "fully_connected"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a fallback warns, and would prove nothing
        captured = trainer_of(values, "trainer.use_cuda_graph=on")
        eager = trainer_of(values, "trainer.use_cuda_graph=off")
        for _ in range(3):
            captured.collect()
            eager.collect()
            torch.testing.assert_close(recorded(captured), recorded(eager), rtol=0, atol=0, equal_nan=True)
            # the updates of the two need not agree in the last digit, as sums on a GPU have no fixed order
            captured.update()
            for tag, policy in captured.policies.items():
                eager.policies[tag].model.load_state_dict(policy.model.state_dict())
    assert captured.rollout.steps_recorded == captured.rollout.num_steps


@pytest.mark.parametrize("game", TAGS)
@pytest.mark.parametrize("algorithm", ["ppo", "a2c"])
@pytest.mark.parametrize("use", ["on", "off"])
def test_nothing_synchronises_from_the_first_rollout_on(
    sections: Sections, trainer_of: TrainerOf, game: str, algorithm: str, use: str
) -> None:
    overrides = [f"policy.{tag}.algorithm={algorithm}" for tag in TAGS[game]]
    trainer = trainer_of(of_game(sections, game), f"trainer.use_cuda_graph={use}", *overrides)
    assert trainer.env.device.type == "cuda"
    with wd.no_host_transfers(trainer.env.device):
        for _ in range(2):
            trainer.collect()
            trainer.update()
            trainer.env.episode_statistics()


def test_a_replayed_step_sees_parameters_that_are_changed_in_place(sections: Sections, trainer_of: TrainerOf) -> None:
    trainer = trainer_of(of_game(sections), "trainer.use_cuda_graph=on")
    trainer.collect()
    with torch.no_grad():
        for parameter in trainer.policies["odd"].model.parameters():
            parameter.zero_()
    trainer.collect()
    found = trainer.rollout.of("log_probabilities", "odd")
    torch.testing.assert_close(found, torch.full_like(found, -math.log(3)))


def test_a_replayed_step_sees_the_switch_to_greedy_actions(sections: Sections, trainer_of: TrainerOf) -> None:
    trainer = trainer_of(of_game(sections), "trainer.use_cuda_graph=on")
    trainer.collect()
    trainer.env.greedy = True
    trainer.collect()
    with torch.no_grad():
        logits = trainer.policies["odd"].model.logits(trainer.rollout.of("observations", "odd")[:-1])
    assert torch.equal(logits.argmax(-1).int(), trainer.rollout.of("actions", "odd"))


def test_evaluations_are_captured_too(sections: Sections, trainer_of: TrainerOf) -> None:
    values = of_game(sections, "Fuse")
    results = [trainer_of(values, f"trainer.use_cuda_graph={use}").evaluate(num_episodes=30) for use in ("on", "off")]
    assert results[0] == results[1]


def looking(self: FullyConnected, observations: Tensor) -> Tensor:
    outputs: Tensor = self.policy(self.flatten(observations))
    return outputs if outputs.isfinite().all() else torch.zeros_like(outputs)


def waiting(self: FullyConnected, observations: Tensor) -> Tensor:
    torch._C._cuda_synchronize()  # bypasses the guard, so that the capture itself fails
    outputs: Tensor = self.policy(self.flatten(observations))
    return outputs


@pytest.mark.parametrize("model", [looking, waiting])
def test_what_cannot_be_captured_runs_without_after_one_warning(
    sections: Sections, trainer_of: TrainerOf, monkeypatch: pytest.MonkeyPatch, model: Callable[..., Tensor]
) -> None:
    values = of_game(sections)
    expected = trainer_of(values, "trainer.use_cuda_graph=off")
    expected.collect()
    monkeypatch.setattr(FullyConnected, "logits", model)
    trainer, stream = trainer_of(values), torch.cuda.current_stream()
    cause = rf"{Path(__file__).name}:\d+: bool\(tensor\)" if model is looking else "captur"
    with pytest.warns(RuntimeWarning, match=rf"without a CUDA graph, which is slower: .*{cause}") as told:
        trainer.collect()
    assert len(told) == 1
    assert torch.cuda.current_stream() == stream
    torch.testing.assert_close(recorded(trainer), recorded(expected), rtol=0, atol=0, equal_nan=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trainer.update()
        trainer.collect()
        trainer.evaluate(num_episodes=5)
    torch.cuda.synchronize()  # no error is left behind


def test_on_does_not_fall_back(sections: Sections, trainer_of: TrainerOf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FullyConnected, "logits", looking)
    trainer = trainer_of(of_game(sections), "trainer.use_cuda_graph=on")
    with pytest.raises(GraphError, match=r"a step of the rollout cannot be captured: .*bool\(tensor\)"):
        trainer.collect()


def test_durations_are_those_of_the_device(sections: Sections, trainer_of: TrainerOf) -> None:
    run = trainer_of(of_game(sections), "saving.log_every=3").train().run_folder
    names, row = ((run / "metrics.csv").read_text().splitlines()[i].split(",") for i in (0, 1))
    seconds = [float(row[names.index(f"perf/{part}_seconds")]) for part in ("rollout", "update")]
    assert all(0 < value < 60 for value in seconds)


@pytest.mark.parametrize("name", ["numba", "pycuda"])
def test_advantages_are_those_of_the_cpu(name: str) -> None:
    if name == "pycuda":
        pytest.importorskip("pycuda")
    generator = torch.Generator().manual_seed(0)
    steps, envs, agents = 20, 300, 5
    draw = lambda *shape: torch.rand(shape, generator=generator)  # noqa: E731
    rewards, values, final_values = draw(steps, envs, agents), draw(steps + 1, envs, 3), draw(2, envs, 3)
    terminated, truncated, active = draw(steps, envs) < 0.1, draw(steps, envs) < 0.1, draw(steps, envs, agents) < 0.8
    found = []
    for backend in (load_backend("cpu"), load_backend(name)):
        estimator = AdvantageEstimator(
            backend,
            agent_ids=torch.tensor([4, 0, 2], dtype=torch.int32, device=backend.device),
            gamma=0.97,
            gae_lambda=0.9,
            rewards=rewards.to(backend.device),
            terminated=terminated.to(backend.device),
            truncated=truncated.to(backend.device),
            final_slot=torch.where(truncated, 1, -1).int().to(backend.device),
            num_final=2,
            active=active.to(backend.device),
            still_active=(active & (rewards > 0.1)).to(backend.device),
        )
        estimator.values.copy_(values)
        estimator.final_values.copy_(final_values)
        estimator.launch()
        found.append(estimator.advantages.cpu())
    torch.testing.assert_close(found[0], found[1], rtol=1e-5, atol=1e-6)
