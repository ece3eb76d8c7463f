"""Policies as kernels compute what PyTorch computes, and the same bits natively and as WebAssembly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from exhaustive import exhaustive
from gymnasium import spaces
from torch import nn

from warpdrive.backends.loading import load_backend, portable_compiler, wasm_backend
from warpdrive.backends.wasm.compile import compile_module
from warpdrive.errors import ExportError
from warpdrive.kernels.fusion import Fusion
from warpdrive.spaces import SpaceArray
from warpdrive.training.models import build_actor_critic
from warpdrive.training.models.base import ActorCritic
from warpdrive.training.models.options import ConvolutionalConfig
from warpdrive.training.web.forward import forward_of
from warpdrive.training.web.game import Game, digest, observations_of

MODEL = "policy.agent.model"
HIDDEN = f"{MODEL}.hidden=[12,9]"
CASES = {
    "perceptron": ("cartpole", HIDDEN, f"{MODEL}.normalize_observations=true", f"{MODEL}.activation=elu"),
    "shared": ("cartpole", HIDDEN, f"{MODEL}.trunk=shared", f"{MODEL}.layer_norm=true", f"{MODEL}.activation=silu"),
    "gru": (
        *("cartpole_recurrent", f"{MODEL}.type=gru", f"{MODEL}.units=10", f"{MODEL}.hidden=[8]"),
        f"{MODEL}.normalize_observations=true",
    ),
    "lstm": ("cartpole_recurrent", f"{MODEL}.type=lstm", f"{MODEL}.units=6", f"{MODEL}.hidden=[8]"),
    "mingru": ("cartpole_recurrent", f"{MODEL}.type=mingru", f"{MODEL}.units=7", f"{MODEL}.hidden=[8]"),
    "action values": ("cartpole_pqn", HIDDEN),
    "state-dependent deviations": ("pendulum", HIDDEN, f"{MODEL}.state_dependent_std=true"),
    "deterministic": ("pendulum_ddpg", HIDDEN),
    "masks": ("matrix_game", "env.payoff=[[4,0,1],[0,2,3]]", HIDDEN, f"{MODEL}.normalize_observations=true"),
}


@pytest.mark.parametrize("case", exhaustive(CASES, ("gru", "masks")))
def test_logits_are_those_of_pytorch(make: Any, case: str) -> None:
    env, policies = make(*CASES[case])
    game, actor = Game(env, policies), policies["agent"].model.in_replicas(env.num_envs, 1)
    for step in range(40):
        with torch.no_grad():
            actor.act(env, "agent")
        expected = env.logits("agent").clone()
        env.logits("agent").zero_()
        game.launch("act_agent")
        torch.testing.assert_close(env.logits("agent"), expected, rtol=2e-5, atol=2e-5, msg=f"step {step}")
        game.launch("actions")
        game.launch("step")
    assert expected.abs().max() > 0.1


def test_convolutions_are_those_of_pytorch_and_the_same_as_webassembly() -> None:
    pytest.importorskip("wasmtime")
    space = spaces.Box(-1.0, 1.0, (3, 7, 6), np.float32)
    options = ConvolutionalConfig(filters=[4, 5], kernel_size=[3, 2], stride=[2, 1], hidden=[])
    torch.manual_seed(5)
    model = build_actor_critic(options, space, spaces.Discrete(5))
    for parameter in model.parameters():
        parameter.data.normal_(0.0, 0.4)
    images, found = torch.rand(3, 2, *space.shape), {}
    seen = SpaceArray("observations", (), (0, 1), space, images.shape[1:], np.dtype(np.float32))
    forward = forward_of("agent", model, [seen], can_leave=False)
    for backend in (load_backend("cpu"), wasm_backend()):
        logits, rows = torch.zeros(3, 2, 5), torch.arange(2, dtype=torch.int32)
        arguments = {"rows": rows, "logits": logits, "seen_0": images.flatten(2), "seen_rows_0": rows}
        weights = {name: torch.from_numpy(values) for name, values in forward.weights.items()}
        backend.bind(Fusion.of(forward.kernel), arguments | weights, 3, 2)()
        found[backend.name] = logits
    torch.testing.assert_close(found["cpu"], model.logits(images), rtol=2e-5, atol=2e-5)
    assert found["cpu"].numpy().tobytes() == found["wasm"].numpy().tobytes()


@pytest.mark.parametrize("case", exhaustive(["gru", "masks"], ("gru",)))
def test_a_game_is_the_same_as_webassembly(make: Any, case: str) -> None:
    pytest.importorskip("wasmtime")
    env, policies = make(*CASES[case])
    games = [Game(env, policies), Game(env.like(env.num_envs, env.seed, env_backend=wasm_backend()), policies)]
    for _ in range(150):
        for game in games:
            game.step()
        assert games[0].state_words().tobytes() == games[1].state_words().tobytes()
    assert int(env.episode_statistics()["episodes"]) > 0
    compiler, kernel = portable_compiler(), games[0].kernels["act_agent"]
    code = compiler.portable(kernel.fusion, kernel.arguments, env.num_envs, env.num_agents)
    module = compile_module({"act_agent": code}, compiler).module
    assert len(module) < 20_000  # 97 kB with a copy of tanh for each unit, and 8 s to compile


def test_masked_actions_are_not_sampled(make: Any) -> None:
    env, policies = make(*CASES["masks"])
    game, chosen = Game(env, policies), []
    for _ in range(50):
        game.step()
        chosen.append(env.ctx["actions"].clone())
    assert [agent.unique().tolist() for agent in torch.stack(chosen).unbind(-1)] == [[0, 1], [0, 1, 2]]


def test_a_digest_depends_on_every_word_and_on_what_was_before(make: Any) -> None:
    env, _ = make("cartpole")
    words = Game(env, {}).state_words().copy()
    found = digest(words)
    for place in range(0, len(words), 7):
        changed = words.copy()
        changed[place] ^= 1 << place % 32
        assert digest(changed) != found
    assert digest(words, found) != digest(words) != digest(words[::-1])


class Own(ActorCritic):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def logits(self, observations: Any) -> torch.Tensor:
        return self.layer(observations)

    def values(self, observations: Any) -> torch.Tensor:
        return self.layer(observations)[..., 0]


def test_other_models_are_refused(make: Any) -> None:
    env, _ = make("cartpole")
    with pytest.raises(ExportError, match="policy 'agent': its model is a Own, which pages cannot compute"):
        forward_of("agent", Own(), observations_of(env, "agent"), can_leave=False)
