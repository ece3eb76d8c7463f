"""Policies as kernels compute what PyTorch computes, and the same bits natively and as WebAssembly."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from warpdrive.backends.loading import wasm_backend
from warpdrive.errors import ExportError
from warpdrive.training.models.base import ActorCritic
from warpdrive.training.web.forward import forward_of
from warpdrive.training.web.game import Game, digest, observations_of

MODEL = "policy.agent.model"
HIDDEN = f"{MODEL}.hidden=[12,9]"
CASES = {
    "perceptron": ("cartpole", HIDDEN, f"{MODEL}.normalize_observations=true", f"{MODEL}.activation=elu"),
    "shared": ("cartpole", HIDDEN, f"{MODEL}.trunk=shared", f"{MODEL}.layer_norm=true", f"{MODEL}.activation=silu"),
    "gru": ("cartpole_recurrent", f"{MODEL}.type=gru", f"{MODEL}.units=10", f"{MODEL}.hidden=[8]"),
    "lstm": ("cartpole_recurrent", f"{MODEL}.type=lstm", f"{MODEL}.units=6", f"{MODEL}.hidden=[8]"),
    "mingru": ("cartpole_recurrent", f"{MODEL}.type=mingru", f"{MODEL}.units=7", f"{MODEL}.hidden=[8]"),
    "action values": ("cartpole_pqn", HIDDEN),
    "state-dependent deviations": ("pendulum", HIDDEN, f"{MODEL}.state_dependent_std=true"),
    "deterministic": ("pendulum_ddpg", HIDDEN),
}


@pytest.mark.parametrize("case", CASES)
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


def test_a_game_is_the_same_as_webassembly(make: Any) -> None:
    pytest.importorskip("wasmtime")
    name, *overrides = CASES["gru"]
    env, policies = make(name, *overrides, f"{MODEL}.normalize_observations=true")
    games = [Game(env, policies), Game(env.like(env.num_envs, env.seed, env_backend=wasm_backend()), policies)]
    for _ in range(150):
        for game in games:
            game.step()
        assert games[0].state_words().tobytes() == games[1].state_words().tobytes()
    assert int(env.episode_statistics()["episodes"]) > 0


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
