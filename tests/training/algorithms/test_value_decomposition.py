"""VDN and QMIX: mixers and targets by hand, and games whose outcomes the papers state."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from exhaustive import exhaustive
from gymnasium import spaces
from numba import cuda
from resuming import check_goes_on

import warpdrive as wd
from warpdrive.errors import ConfigError
from warpdrive.training.algorithms.qmix import QMIXConfig
from warpdrive.training.algorithms.task import adam
from warpdrive.training.algorithms.value_decomposition import ValueDecomposition, unrolled
from warpdrive.training.algorithms.vdn import VDNConfig
from warpdrive.training.config.load import load_config
from warpdrive.training.experience.team_sequences import TeamSequences
from warpdrive.training.models.mixers import MonotonicMixer, SumMixer
from warpdrive.training.models.options import UnitsConfig
from warpdrive.training.models.q_network import QNetwork, RecurrentQNetwork


def test_the_monotonic_mixer_is_that_of_the_paper() -> None:
    """Two agents, one element of state s = 2, two units, hypernetworks without hidden layers."""
    mixer = MonotonicMixer(agents=2, size=1, units=2, hidden=[])
    states = torch.tensor([[2.0]])
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.zero_()
        mixer.first_weights[0].weight.copy_(torch.tensor([[1.0], [-0.5], [-2.0], [0.25]]))  # |W1| = [[2, 1], [4, 0.5]]
        mixer.first_bias[0].weight.copy_(torch.tensor([[0.5], [-1.0]]))  # b1 = [1, -2]
        mixer.last_weights[0].weight.copy_(torch.tensor([[-1.5], [1.0]]))  # |w2| = [3, 2]
        mixer.last_bias[0].weight.copy_(torch.tensor([[1.0], [-1.0]]))  # relu([2, -2]) = [2, 0]
        mixer.last_bias[2].weight.copy_(torch.tensor([[0.5, 7.0]]))  # v = 1
        found = mixer(torch.tensor([[1.0, -0.5]]), states)
    # hidden = elu([1 * 2 - 0.5 * 4 + 1, 1 * 1 - 0.5 * 0.5 - 2]) = elu([1, -1.25])
    assert found.item() == pytest.approx(3 * 1 + 2 * (np.exp(-1.25) - 1) + 1, rel=1e-6)


@pytest.mark.parametrize("hidden", [[], [5]])
def test_mixed_values_are_monotonic(hidden: list[int]) -> None:
    torch.manual_seed(0)
    mixer = MonotonicMixer(3, 4, 6, hidden)
    values = torch.randn(500, 3, requires_grad=True)
    mixer(values, torch.randn(500, 4)).sum().backward()
    assert values.grad is not None and (values.grad >= 0).all() and (values.grad > 0).any()


def constant_values(model: QNetwork, places: npt.NDArray[Any]) -> None:
    """Let a model without hidden layers have the values ``places [observations, choices]`` of unit vectors."""
    with torch.no_grad():
        model.value[0].weight.copy_(torch.from_numpy(places.T).float())  # type: ignore[operator, union-attr]
        model.value[0].bias.zero_()  # type: ignore[operator, union-attr]


PLACES = np.array([[1.0, 2.0], [3.0, 5.0], [7.0, 4.0], [10.0, 20.0]])
TARGETS = np.array([[0.5, 0.25], [4.0, 1.0], [2.0, 8.0], [16.0, 32.0]])


def sequence(**more: Any) -> TeamSequences:
    """Three steps of one team of two agents: the first truncated, the second ordinary, the third terminated."""
    places = torch.tensor([[0, 1], [2, 0], [1, 2], [0, 0]])
    of = lambda index: torch.eye(4)[index].unsqueeze(1)  # noqa: E731
    return TeamSequences(
        observations=of(places),
        final_observations=of(torch.tensor([[3, 1]])),
        final_slot=torch.tensor([[0], [-1], [-1]], dtype=torch.int32),
        start=torch.zeros(1, 2, 0),
        begins=torch.zeros(4, 1, 2, dtype=torch.bool),
        actions=torch.tensor([[0, 1], [1, 0], [0, 1]], dtype=torch.int32).unsqueeze(1),
        rewards=torch.tensor([[1.0], [2.0], [3.0]]),
        terminal=torch.tensor([[False], [False], [True]]),
        ended=torch.tensor([[True], [False], [True]]),
        weight=torch.ones(3),
        **more,
    )


def learner(**settings: Any) -> ValueDecomposition:
    config = VDNConfig.model_validate({"algorithm": "vdn", "gamma": 0.5, "model": {"hidden": []}, **settings})
    model = config.build_model(spaces.Box(0, 1, (4,), np.float32), spaces.Discrete(2))
    found = ValueDecomposition(config, model, SumMixer(), adam(model))
    constant_values(model, PLACES)
    constant_values(found.target_model, TARGETS)
    return found


def targets(algorithm: ValueDecomposition, batch: TeamSequences) -> list[float]:
    values = algorithm.model(batch.observations)
    found: list[float] = algorithm.targets(batch, values, torch.zeros(4, 1, 2, 0)).flatten().tolist()
    return found


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        # after the first step the final observations 3, 1 count; after the second 1, 2; after the third nothing
        ({}, [1 + 0.5 * (32 + 1), 2 + 0.5 * (1 + 2), 3]),  # the model prefers 1 of 3 and 1, and 0 of 2
        ({"double": False}, [1 + 0.5 * (32 + 4), 2 + 0.5 * (4 + 8), 3]),
        ({"td_lambda": 1.0}, [1 + 0.5 * (32 + 1), 2 + 0.5 * 3, 3]),
        ({"bootstrap_truncated": False}, [1, 2 + 0.5 * (1 + 2), 3]),
        ({"bootstrap_truncated": False, "td_lambda": 1.0}, [1, 2 + 0.5 * 3, 3]),
        ({"td_lambda": 0.5}, [1 + 0.5 * (32 + 1), 2 + 0.5 * (0.5 * 3 + 0.5 * 3), 3]),
    ],
)
def test_targets_over_the_ends_of_episodes(settings: dict[str, Any], expected: list[float]) -> None:
    assert targets(learner(**settings), sequence()) == pytest.approx(expected)


def test_targets_exclude_actions_that_are_not_allowed() -> None:
    mask = torch.ones(3, 1, 2, 2, dtype=torch.bool)
    mask[1, 0, 0, 1] = False  # the first agent at 1 may only do 0
    assert targets(learner(), sequence(next_action_mask=mask))[1] == pytest.approx(2 + 0.5 * (4 + 2))


@pytest.mark.parametrize("after_leaving", [True, False])
def test_agents_out_of_the_episode_do_not_count(after_leaving: bool) -> None:
    """Both have left after the second step, and the team is paid until the third, the last of the episode."""
    active = torch.tensor([[True, True], [True, False], [False, False]]).unsqueeze(1)
    still = torch.tensor([[True, False], [False, False], [False, False]]).unsqueeze(1)
    batch = sequence(active=active, still_active=still)
    vars(batch)["weight"] = torch.tensor([1.0, 1.0, 0.0])
    algorithm = learner(returns_after_leaving=after_leaving)
    found = targets(algorithm, batch)
    assert found[:2] == pytest.approx([1 + 0.5 * 32, 2 + 0.5 * 3 * after_leaving])
    loss, terms = algorithm.loss(batch)
    errors = np.array([1 + 5 - found[0], 4 - found[1]])  # values of the actions: 0 of place 0 and 1 of 1; 1 of 2
    assert loss.item() == pytest.approx((0.5 * errors**2).mean())
    assert terms["q_values"].item() == pytest.approx((6 + 4) / 2)


def test_the_huber_loss_and_standardised_rewards() -> None:
    algorithm = learner(value_loss="huber", huber_delta=2.0, normalize_rewards=True)
    algorithm.rewards.observe(torch.tensor([0.0, 4.0]), torch.ones(2))  # mean 2, standard deviation 2
    found = targets(algorithm, sequence())
    assert found == pytest.approx([-0.5 + 0.5 * 33, 0.5 * 3, 0.5])
    chosen = [1 + 5, 4 + 1, 3 + 4]
    sizes = [abs(value - target) for value, target in zip(chosen, found, strict=True)]
    expected = np.mean([0.5 * size**2 if size <= 2 else 2 * (size - 1) for size in sizes])
    assert algorithm.loss(sequence())[0].item() == pytest.approx(expected)


def layers(module: Any, inputs: Any) -> Any:
    """Linear layers with ReLU between them, in NumPy."""
    for layer in module:
        if isinstance(layer, torch.nn.Linear):
            inputs = inputs @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()
        else:
            inputs = np.maximum(inputs, 0.0)
    return inputs


def values_of_an_episode(network: Any, seen: Any) -> Any:
    """Values ``[T, choices]`` of one agent that sees ``[T, size]``, by the GRU of ``torch.nn.GRUCell``, in NumPy."""
    sigmoid = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
    weight, recurrent, bias, recurrent_bias = (p.detach().numpy() for p in network.cells[0].parameters())
    state, found = np.zeros(network.units), []
    for features in layers(network.encoders[0], seen):
        of_input, of_state = np.split(weight @ features + bias, 3), np.split(recurrent @ state + recurrent_bias, 3)
        reset, update = (sigmoid(of_input[gate] + of_state[gate]) for gate in (0, 1))
        state = (1 - update) * np.tanh(of_input[2] + reset * of_state[2]) + update * state
        found.append(layers(network.value, state))
    return np.array(found)


def mixed_in_numpy(mixer: Any, values: Any, state: Any) -> Any:
    first = np.abs(layers(mixer.first_weights, state)).reshape(len(values), -1)
    hidden = values @ first + layers(mixer.first_bias, state)
    hidden = np.where(hidden > 0, hidden, np.exp(np.minimum(hidden, 0)) - 1)
    return hidden @ np.abs(layers(mixer.last_weights, state)) + layers(mixer.last_bias, state)[0]


def test_whole_episodes_are_learnt_as_in_qmix() -> None:
    """Targets and loss, episode by episode in NumPy, with the order of operations of PyMARL's ``QLearner``.

    The first replica terminates after 2 of 5 steps and is truncated after 3 more; the second is in its first episode.
    """
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    settings: dict[str, Any] = {"algorithm": "qmix", "gamma": 0.9, "normalize_rewards": True}
    settings["model"] = {"type": "gru", "activation": "relu", "hidden": [5], "units": 6}
    config, space = QMIXConfig.model_validate(settings), spaces.Box(-1, 1, (3,), np.float32)
    model, mixer = config.build_model(space, spaces.Discrete(4)), MonotonicMixer(2, 4, 3, [7])
    algorithm = ValueDecomposition(config, model, mixer, adam(torch.nn.ModuleList([model, mixer])))
    for module in (algorithm.model, algorithm.mixer, algorithm.target_model, algorithm.target_mixer):
        for parameter in module.parameters():
            torch.nn.init.normal_(parameter, std=0.5)
    algorithm.rewards.observe(torch.tensor([0.0, 4.0]), torch.ones(2))  # mean 2, standard deviation 2
    seen, final, rewards = rng.normal(size=(6, 2, 2, 3)), rng.normal(size=(1, 2, 2, 3)), rng.normal(size=(5, 2))
    actions, allowed = rng.integers(4, size=(5, 2, 2)), rng.random((5, 2, 2, 4)) < 0.7
    allowed[..., 1] = True
    states, following = rng.normal(size=(2, 5, 2, 4))
    begins, terminal, ended, slot = (np.zeros(shape, int) for shape in ((6, 2, 2), (5, 2), (5, 2), (5, 2)))
    begins[0], begins[2, 0], begins[5, 0], terminal[1, 0], ended[[1, 4], 0] = 1, 1, 1, 1, 1
    slot -= 1
    slot[4, 0] = 0
    floats = lambda array: torch.from_numpy(array).float()  # noqa: E731
    batch = TeamSequences(
        observations=floats(seen),
        final_observations=floats(final),
        final_slot=torch.from_numpy(slot).int(),
        start=torch.zeros(2, 2, 6),
        begins=torch.from_numpy(begins).bool(),
        actions=torch.from_numpy(actions).int(),
        rewards=floats(rewards),
        terminal=torch.from_numpy(terminal).bool(),
        ended=torch.from_numpy(ended).bool(),
        weight=torch.ones(10),
        next_action_mask=torch.from_numpy(allowed),
        states=floats(states),
        next_states=floats(following),
    )

    targets, errors = np.zeros((5, 2)), []
    for replica, start, stop, last in ((0, 0, 2, seen[2, 0]), (0, 2, 5, final[0, 0]), (1, 0, 5, seen[5, 1])):
        episode = np.concatenate([seen[start:stop, replica], last[None]])
        live, target = (
            np.stack([values_of_an_episode(network, episode[:, agent]) for agent in (0, 1)], 1)
            for network in (algorithm.model, algorithm.target_model)
        )
        for t in range(start, stop):
            best = np.where(allowed[t, replica], live[t + 1 - start], -np.inf).argmax(-1)
            chosen = live[t - start][[0, 1], actions[t, replica]]
            later = mixed_in_numpy(algorithm.target_mixer, target[t + 1 - start][[0, 1], best], following[t, replica])
            targets[t, replica] = (rewards[t, replica] - 2) / 2 + 0.9 * (1 - terminal[t, replica]) * later
            errors.append(mixed_in_numpy(algorithm.mixer, chosen, states[t, replica]) - targets[t, replica])
    values, after = (part.detach() for part in unrolled(algorithm.model, batch))
    np.testing.assert_allclose(algorithm.targets(batch, values, after).numpy(), targets, rtol=1e-4, atol=1e-5)
    assert algorithm.loss(batch)[0].item() == pytest.approx(0.5 * np.mean(np.square(errors)), rel=1e-4)


@pytest.mark.parametrize("kind", ["gru", "lstm", "mingru"])
def test_steps_and_sequences_of_a_recurrent_network_agree(kind: Any) -> None:
    torch.manual_seed(0)
    network = RecurrentQNetwork(spaces.Box(-1, 1, (3,), np.float32), 4, UnitsConfig(type=kind, hidden=[5], units=6))
    seen, begins = torch.randn(7, 2, 3), torch.zeros(7, 2, dtype=torch.bool)
    begins[3, 1] = True
    start = torch.randn(2, network.state_size)
    values, states = network.forward_sequence(seen, start, begins)
    state = start
    for t in range(7):
        found, state = network.advance(seen[t], state.masked_fill(begins[t].unsqueeze(-1), 0.0))
        torch.testing.assert_close(found, values[t])
        torch.testing.assert_close(state, states[t])
    torch.testing.assert_close(network(seen[3])[1], values[3, 1])


@wd.kernel
def two_steps(actions, stage, rewards, terminated):  # type: ignore[no-untyped-def]
    """The two-step game of the QMIX paper: the first agent's first action chooses the game of the second step."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    first, second, now = actions[env, 0], actions[env, 1], stage[env]
    cuda.syncthreads()
    if now == 1:
        rewards[env, agent] = 7 if agent == 0 else 0
    if now == 2:
        rewards[env, agent] = (8 if first + second == 2 else first + second) if agent == 0 else 0
    if agent == 0:
        stage[env] = 1 + first
        terminated[env] = now > 0


@wd.kernel
def two_steps_seen(stage, observations):  # type: ignore[no-untyped-def]
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    for k in range(3):
        observations[env, agent, k] = k == stage[env]
    for k in range(2):
        observations[env, agent, 3 + k] = k == agent


class TwoSteps(wd.Environment):
    """Game A pays 7 whatever agents do, game B [[0, 1], [1, 8]]: table 1 of arXiv:1803.11485."""

    name = "two_steps"
    step, observe = two_steps, two_steps_seen

    def __init__(self) -> None:
        self.num_agents, self.episode_length = 2, 3
        self.policy_tags = {"team": [0, 1]}
        self.observation_space = spaces.Box(0, 1, (5,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.global_state = ("stage",)

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        return {"stage": np.array(0, np.int32)}


def two_step_return(algorithm: str, seed: int) -> float:
    env = wd.EnvWrapper(TwoSteps(), 32, "cpu", seed)
    settings = {
        "algorithm": algorithm,
        "lr": 1e-2,
        "epsilon": 1.0,
        "learning_starts": 64,
        "gradient_steps": 4,
        "target_update_every": 20,
        "model": {"hidden": [32], "activation": "relu"},
        **({"mixer_input": "observations"} if algorithm == "qmix" else {}),
    }
    trainer = wd.Trainer(
        env, {"trainer": {"train_batch_size": 64, "total_steps": 6400, "seed": seed}, "policy": {"team": settings}}
    )
    for _ in range(100):
        trainer.collect()
        trainer.update()
    return trainer.evaluate(num_episodes=32, deterministic=True).mean_return["team"] * 2  # of both agents


@pytest.mark.parametrize(("algorithm", "expected"), exhaustive([("vdn", 7.0), ("qmix", 8.0)], ("qmix",)))
def test_the_two_step_game_of_the_paper(algorithm: str, expected: float) -> None:
    """Values that are sums cannot tell that game B is worth 8, as table 2 of arXiv:1803.11485 has it.

    Of the seeds 0 to 59, VDN reached 7 with all, and QMIX 8 with all but seed 34: a machine that rounds differently
    fails with a probability of about 1 in 60. On one machine seed 0, which is tested, has the same numbers every time.
    """
    assert two_step_return(algorithm, seed=0) == expected


def test_impossible_sizes_are_refused(sections: Any) -> None:
    values = sections()
    for settings, message in (
        (
            {"algorithm": "vdn", "buffer_size": 8, "batch_size": 4},
            "buffer_size: found 8, expected at least 20, the seq",
        ),
        ({"algorithm": "vdn", "buffer_size": 20}, r"batch_size: found 32, expected at most buffer_size \(20\)"),
        ({"algorithm": "vdn", "parameter_sharing": False}, "_0.parameter_sharing: found false, expected true"),
        ({"algorithm": "qmix", "mixer_input": "global_state"}, "mixer_input: found 'global_state', but Echo has none"),
    ):
        values["policy"]["odd"] = settings
        with pytest.raises(ConfigError, match=rf"policy.odd.?{message}"):
            load_config(values)


CASES = {
    "vdn": {"algorithm": "vdn", "model": {"type": "gru", "hidden": [8], "units": 8}},
    "vdn, a perceptron": {"algorithm": "vdn", "model": {"hidden": [8]}, "td_lambda": 0.5, "value_loss": "huber"},
    "qmix": {
        "algorithm": "qmix",
        "normalize_rewards": True,
        "model": {"type": "lstm", "hidden": [], "units": 8, "normalize_observations": True},
    },
}


@pytest.mark.parametrize("case", exhaustive(CASES, ("qmix",)))
def test_a_resumed_run_equals_an_uninterrupted_one(sections: Any, trainer_of: Any, tmp_path: Any, case: str) -> None:
    """Bitwise, with the contents of the buffer, and without transfers to the host meanwhile."""
    values = sections("Revealed", train_batch_size=80)  # half an episode
    common = {"batch_size": 6, "buffer_size": 50, "gradient_steps": 2, "learning_starts": 100}
    values["policy"]["odd"] = {"lr": 0.01, "target_update_every": 3, **common, **CASES[case]}

    assert "losses/td_loss/odd" in check_goes_on(trainer_of(values), tmp_path / "checkpoint", updates=4)
    policy = wd.load_policy(tmp_path / "checkpoint", "odd")
    actions = policy.act(np.eye(3, dtype=np.float32), deterministic=True)
    assert actions.shape == (3,) and policy.is_recurrent == (case != "vdn, a perceptron")


@pytest.mark.parametrize(("kind", "expected"), [("own", 5.0), ("sum", 5.0), ("mean", 2.5)])
def test_the_team_learns_from_its_reward(sections: Any, trainer_of: Any, kind: str, expected: float) -> None:
    """The agents of ``others`` earn 2 and 3 in each step."""
    trainer = trainer_of(sections("Fuse", ("one", "others")), f"policy.others={{algorithm: vdn, team_reward: {kind}}}")
    trainer.collect()
    buffer = trainer.policies["others"].experience.of(trainer.rollout)
    torch.testing.assert_close(buffer.newest.rewards, torch.full((10, 20), expected))
