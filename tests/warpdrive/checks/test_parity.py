"""Comparison of environments with references of three kinds, which agree or differ in one planted place."""

from __future__ import annotations

import json

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from numba import cuda

import warpdrive as wd
from warpdrive.checks.agreement import Trials
from warpdrive.checks.last_writes import LastWrites
from warpdrive.env_wrapper import EnvWrapper
from warpdrive.errors import ActionError, DefinitionError
from warpdrive.testing import Draws, GymnasiumReference, ParityReport, PettingZooReference, check_parity
from warpdrive.training.cli.main import main

DT, BORDER = np.float32(0.25), np.float32(1)


@wd.kernel
def fall(height, velocity, actions, rewards, terminated):
    env = cuda.blockIdx.x
    velocity[env] += DT * np.float32(actions[env, 0] - 1)
    height[env] += DT * velocity[env]
    rewards[env, 0] = -abs(velocity[env])
    if height[env] <= 0:
        terminated[env] = True


@wd.kernel
def see(height, velocity, observations):
    env = cuda.blockIdx.x
    observations[env, 0, 0] = height[env]
    observations[env, 0, 1] = velocity[env]


class Ball(wd.Environment):
    """A ball that falls unless it is pushed up."""

    name, step, observe = "ball", fall, see
    num_agents, episode_length, policy_tags = 1, 30, {"ball": [0]}
    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def initial_state(self, rng):
        return {"height": np.float32(rng.uniform(1, 3)), "velocity": np.float32(0)}


class BallEnv(gymnasium.Env):
    """The same for Gymnasium, in float64."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Discrete(2)
    push, ground, seen_velocity = 1.0, 0.0, 1.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.height, self.velocity = self.np_random.uniform(1, 3), 0.0
        return self.seen(), {}

    def step(self, action):
        self.velocity += 0.25 * self.push * (action - 1)
        self.height += 0.25 * self.velocity
        return self.seen(), -abs(self.velocity), self.height <= self.ground, False, {}

    def seen(self):
        return np.array([self.height, self.seen_velocity * self.velocity], np.float32)


def test_an_environment_of_gymnasium_is_compared_by_the_names_of_its_attributes():
    for original in (BallEnv, BallEnv(), gymnasium.wrappers.TimeLimit(BallEnv(), 30)):
        report = check_parity(Ball(), original, episodes=30, seed=1)
        assert report and report.first is None and report.reference == "BallEnv"
        assert report.episodes >= 30 and report.steps > 100 and report.terminated > 0
        assert set(report.arrays) == {"rewards", "terminated", "observations", "height", "velocity"}
        assert "equal" in str(report) and f"{report.steps:,} steps" in str(report)
    whole = check_parity(Ball(), BallEnv, episodes=30, whole_episodes=True, tolerance=1e-4)
    assert whole and whole.episodes >= 30


@pytest.mark.parametrize(
    ("mistake", "first", "arrays"),
    [
        ({"push": 1.01}, "height", {"height", "velocity", "observations", "rewards"}),
        ({"ground": 0.3}, "terminated", {"terminated"}),
        ({"seen_velocity": 1.001}, "observations", {"observations"}),
    ],
)
def test_the_first_difference_of_each_array_is_reported(mistake, first, arrays):
    original = BallEnv()
    for name, value in mistake.items():
        setattr(original, name, value)
    report = check_parity(Ball(), original, episodes=10)
    assert not report and {found.array for found in report.differences} == arrays
    assert report.first.array == first and report.first.step >= 1 and not report.first.whole_episodes
    assert report.first.count > 1 or first == "terminated"
    assert report.episodes >= 10  # it goes on after a difference
    assert {found.agent for found in report.differences} <= {0, None}


def test_a_difference_names_the_statement_the_values_and_the_actions():
    original = BallEnv()
    original.seen_velocity = 2.0
    found = check_parity(Ball(), original, episodes=3).first
    assert found.index == (0, 1) and found.agent == 0
    assert found.theirs == 2 * found.ours == pytest.approx(2 * -0.25)
    assert found.source == "observations[env, 0, 1] = velocity[env]" and "test_parity.py:" in found.rule
    assert found.actions["actions"].tolist() == [0]
    assert "observations[0, 1] of agent 0 is -0.25, and -0.5 in the reference" in str(found)


def test_an_infinite_number_differs_from_all_others():
    class Infinite(OneStep):
        def step(self, actions):
            return {**super().step(actions), "rewards": [np.inf]}

    report = check_parity(Ball(), Infinite, episodes=2)
    assert not report and report.first.array == "rewards" and report.first.theirs == np.inf
    assert report.largest < 1e-5


@wd.kernel
def push(height, velocity, actions, rewards, terminated):
    env = cuda.blockIdx.x
    height[env] += actions[env, 0, 0]
    rewards[env, 0] = height[env]


def test_a_reference_gets_clipped_actions():
    class Pushed(Ball):
        step, action_space = push, spaces.Box(-1.0, 1.0, (1,), np.float32)

    class PushedEnv(BallEnv):
        action_space = Pushed.action_space

        def step(self, action):
            self.height += action[0]
            return self.seen(), self.height, False, False, {}

    def act(env, observations, rng):
        return rng.uniform(-3, 3, (len(observations["observations"]), 1, 1)).astype(np.float32)

    assert check_parity(Pushed(), PushedEnv, episodes=3, act=act)
    with pytest.raises(ActionError, match="action"):
        check_parity(Pushed(), PushedEnv, episodes=3, act=lambda env, observations, rng: {"ball": [[0.5]]})


def test_a_long_step_is_not_interpreted_and_names_the_kernel(monkeypatch):
    monkeypatch.setattr("warpdrive.checks.last_writes.LONGEST", 3)
    original = BallEnv()
    original.seen_velocity = 2.0
    found = check_parity(Ball(), original, episodes=3).first
    assert found.array == "observations" and found.rule == see.where


class Steps:
    """A reference with three methods, of an environment whose kernels draw."""

    mistake = False

    def __init__(self, env):
        self.env = env

    def set_state(self, state):
        self.place, self.draws = state["place"].copy(), Draws(state["rng"])

    def step(self, actions):
        for agent in range(3):
            self.place[agent] += self.draws.integer(agent, 5) * actions[agent]
            slips = self.draws.uniform(agent) < 0.5
            self.place[agent] -= slips
        self.noise = np.array([self.draws.normal(agent) for agent in range(3)])
        self.place[2] += self.mistake
        return {"place": self.place, "noise": self.noise, "rewards": self.place % 2, "terminated": False}

    def observations(self):
        return self.place[:, None].astype(np.float32)


class WrongSteps(Steps):
    mistake = True


@wd.kernel
def wander(place, noise, actions, rewards, observations, rng):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    place[env, agent] += wd.random.integer(rng, env, agent, 5) * actions[env, agent]
    if wd.random.uniform(rng, env, agent) < np.float32(0.5):
        place[env, agent] -= 1
    noise[env, agent] = wd.random.normal(rng, env, agent)
    rewards[env, agent] = place[env, agent] % 2
    observations[env, agent, 0] = place[env, agent]


class Wander(wd.Environment):
    """Three agents that move by random numbers."""

    name, step = "wander", wander
    num_agents, episode_length, policy_tags = 3, 6, {"agent": [0, 1, 2]}
    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = spaces.Discrete(3)

    def initial_state(self, rng):
        place = rng.integers(0, 9, 3).astype(np.int32)
        return {"place": place, "noise": np.zeros(3, np.float32), "observations": place[:, None].astype(np.float32)}


def test_a_class_with_three_methods_gets_the_draws_of_the_kernels(python_backend):
    options = {"episodes": 6, "replicas": 3, "whole_episodes": True, "backend": python_backend}
    report = check_parity(Wander(), Steps, **options)
    assert report and set(report.arrays) == {"place", "noise", "rewards", "terminated", "observations"}
    report = check_parity(Wander(), WrongSteps, **options)
    assert not report and report.first.array == "place" and report.first.index == (2,)
    assert report.first.agent == 2 and report.first.theirs == report.first.ours + 1 and report.first.step == 1
    assert report.first.source in ("place[env, agent] -= 1",) or "wd.random.integer" in report.first.source
    assert report.first.whole_episodes


@wd.kernel
def walk_apart(place, actions, observations_left, observations_right):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    place[env, agent] += actions[env, agent]
    if agent == 0:
        observations_left[env, 0, 0] = place[env, 0]
    else:
        observations_right[env, 0, 0] = place[env, 1]
        observations_right[env, 0, 1] = place[env, 0]


class Apart(wd.Environment):
    """Two agents with observations of different sizes."""

    name, step = "apart", walk_apart
    num_agents, episode_length, policy_tags = 2, 5, {"left": [0], "right": [1]}
    action_space = spaces.Discrete(2)

    def __init__(self):
        sizes = {"left": (1,), "right": (2,)}
        self.observation_space = {tag: spaces.Box(0, np.inf, size, np.float32) for tag, size in sizes.items()}

    def initial_state(self, rng):
        seen = {"observations_left": np.zeros((1, 1), np.float32), "observations_right": np.zeros((1, 2), np.float32)}
        return {"place": np.zeros(2, np.int32), **seen}


class ApartRules:
    """The same; ``told`` maps the observations of both tags to what the reference returns."""

    def __init__(self, told=lambda left, right: {"left": left, "right": right}):
        self.told = told

    def set_state(self, state):
        self.place = state["place"]

    def step(self, actions):
        self.place = self.place + actions
        return {"rewards": np.zeros(2), "terminated": False, "place": self.place}

    def observations(self):
        return self.told([[self.place[0]]], [[self.place[1], self.place[0]]])


def test_observations_of_tags_are_named_by_tag_or_by_array():
    by_array = ApartRules(lambda left, right: {"observations_left": left, "observations_right": right})
    for reference in (ApartRules(), by_array):
        report = check_parity(Apart(), reference, episodes=2, replicas=2)
        assert report and {"observations_left", "observations_right"} < set(report.arrays)
    wrong = check_parity(Apart(), ApartRules(lambda left, right: {"left": left, "right": [[-1, -1]]}), replicas=2)
    assert not wrong and wrong.first.array == "observations_right" and wrong.first.agent == 1
    half = check_parity(Apart(), ApartRules(lambda left, right: {"left": left}), episodes=1, replicas=2)
    assert half and half.not_observed == ["observations_right"] and not report.not_observed
    assert "terminated, place; not returned by the reference: observations_right" in str(half)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (lambda left, right: {"left": left, "rihgt": right}, "returned 'rihgt'.*expected.*observations_right"),
        (lambda left, right: {"observations_lft": left}, "Did you mean 'observations_left'"),
        (lambda left, right: left, "returned 'observations', expected.*observations_left, observations_right"),
    ],
)
def test_names_that_no_array_has_are_errors(told, message):
    with pytest.raises(DefinitionError, match=message):
        check_parity(Apart(), ApartRules(told), episodes=1, replicas=2)


def test_draws_leave_the_state_alone_and_agents_apart():
    rng = np.array([[1, 0, 0, 0], [1, 0, 0, 0]], np.uint32)
    draws = Draws(rng)
    numbers = [draws.uniform(0), draws.uniform(1), draws.uniform(0)]
    assert len(set(numbers)) == 3 and all(0 <= number < 1 for number in numbers)
    assert not rng[:, 3].any()
    assert Draws(rng).uniform(1) == numbers[1]


class OneStep:
    """A reference of the ball whose border is within a rounding error of the kernels'."""

    error = 0.0

    def __init__(self, env):
        pass

    def set_state(self, state):
        self.height, self.velocity = float(state["height"]), float(state["velocity"])

    def step(self, actions):
        self.velocity += 0.25 * (int(actions[0]) - 1)
        self.height += 0.25 * self.velocity
        return {"rewards": [-abs(self.velocity)], "terminated": self.height + self.error < 0}

    def observations(self):
        return np.ma.masked_all((1, 2))


class Landing(Ball):
    """A ball that touches the ground exactly, after one step without a push."""

    name = "landing"

    def initial_state(self, rng):
        return {"height": np.float32(0.0625), "velocity": np.float32(0)}


def test_decisions_that_depend_on_rounding_are_counted_and_others_are_differences():
    options = {"episodes": 5, "steps": 20, "act": lambda *_: np.zeros((5, 1), np.int32)}
    report = check_parity(Landing(), OneStep, **options)  # the kernels: <= 0; the reference: < 0
    assert not report.differences and report.doubtful == report.steps >= 20
    assert report.first_doubtful.array == "terminated" and report.first_doubtful.source == "terminated[env] = True"
    assert not report and "check their comparisons, such as < or <=" in str(report)  # in every step: not by rounding

    class Far(OneStep):
        error = -1e-3

    class Higher(Landing):
        def initial_state(self, rng):
            return {"height": np.float32(0.063), "velocity": np.float32(0)}

    report = check_parity(Higher(), Far, **options)
    assert not report and report.first.array == "terminated" and not report.doubtful


def test_steps_in_which_known_differences_occur_again_are_not_examined(monkeypatch):
    class Stronger(BallEnv):
        push = 3.0

    examined, reproduces = [], Trials.reproduces
    monkeypatch.setattr(Trials, "reproduces", lambda *given: examined.append(given) or reproduces(*given))
    report = check_parity(Ball(), Stronger, episodes=20)
    assert report.first.count > 100 and 0 < len(examined) <= len(report.differences)


def test_few_doubtful_decisions_are_equal():
    assert ParityReport("ours", "theirs", steps=1000, doubtful=10)
    assert not ParityReport("ours", "theirs", steps=1000, doubtful=11)
    assert ParityReport("ours", "theirs", steps=10, doubtful=1)
    assert "; 1 decision depends on rounding)" in str(ParityReport("ours", "theirs", steps=10, doubtful=1))


def test_masked_elements_are_not_compared():
    assert "observations" in check_parity(Ball(), OneStep, episodes=2).arrays


@wd.kernel
def hunt(place, active, actions, rewards, terminated, length):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if active[env, agent]:
        place[env, agent] = (place[env, agent] + actions[env, agent]) % length
    cuda.syncthreads()
    if agent > 0 and active[env, agent] and place[env, agent] == place[env, 0]:
        active[env, agent] = False
        rewards[env, agent] = -1
    left = cuda.syncthreads_count(agent > 0 and active[env, agent])
    if agent == 0 and left == 0:
        terminated[env] = True


@wd.kernel
def look(place, observations):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    observations[env, agent, 0] = place[env, agent]


class Hunt(wd.Environment):
    """A wolf and two sheep on a ring."""

    name, step, observe = "hunt", hunt, look
    num_agents, episode_length, policy_tags, length = 3, 20, {"wolf": [0], "sheep": [1, 2]}, 7
    observation_space = spaces.Box(0.0, 7.0, (1,), np.float32)
    action_space = spaces.Discrete(3)

    def initial_state(self, rng):
        return {"place": rng.permutation(7)[:3].astype(np.int32), "active": np.ones(3, bool)}


class HuntEnv:
    """The same as a parallel environment of PettingZoo, without its base class."""

    possible_agents, late, price = ("wolf", "a", "b"), 20, -1.0

    @property
    def unwrapped(self):
        return self

    def reset(self, seed=None, options=None):
        self.agents, self.place, self.timestep = list(self.possible_agents), [0, 1, 2], 0
        return self.seen(self.agents), {}

    def seen(self, agents):
        return {agent: np.array([self.place[self.possible_agents.index(agent)]], np.float32) for agent in agents}

    def step(self, actions):
        assert set(actions) == set(self.agents)
        self.timestep += 1
        for agent, action in actions.items():
            index = self.possible_agents.index(agent)
            self.place[index] = (self.place[index] + action) % 7
        caught = {a: self.place[self.possible_agents.index(a)] == self.place[0] for a in self.agents[1:]}
        gone = {"wolf": all(caught.values()), **caught}
        late = dict.fromkeys(gone, self.timestep == self.late)
        acted, self.agents = self.agents, [a for a in self.agents if not gone[a] and not late[a]]
        rewards = {agent: self.price * caught.get(agent, False) for agent in acted}
        return self.seen(acted), rewards, gone, late, {agent: {} for agent in acted}


def put(original, state):
    original.place, original.timestep = state["place"].tolist(), state["timestep"]


def hunters(env, **attributes):
    original = HuntEnv()
    for name, value in attributes.items():
        setattr(original, name, value)
    return PettingZooReference(env, original, put, lambda it: it.seen(it.agents), truncates=True)


def test_a_parallel_environment_whose_agents_leave():
    report = check_parity(Hunt(), hunters, episodes=100)
    assert report and 0 < report.terminated < report.episodes
    assert set(report.arrays) == {"rewards", "terminated", "truncated", "active", "observations"}
    assert report.episodes >= 100 and not report.doubtful
    assert check_parity(Hunt(), hunters, episodes=20, whole_episodes=False)
    report = check_parity(Hunt(), lambda env: hunters(env, late=19), episodes=20)
    assert not report and {"truncated", "terminated"} & {found.array for found in report.differences}
    report = check_parity(Hunt(), lambda env: hunters(env, price=-2.0), episodes=20)
    assert not report and report.first.array == "rewards" and report.first.agent in (1, 2)
    assert report.first.source == "rewards[env, agent] = -1" and report.first.whole_episodes


class FlaggedEnv(HuntEnv):
    """The same, with a flag for each agent."""

    def reset(self, seed=None, options=None):
        self.here = np.ones(3, bool)
        return super().reset(seed)

    def step(self, actions):
        assert self.here.tolist() == [agent in self.agents for agent in self.possible_agents]
        result = super().step(actions)
        self.here &= [not result[2].get(agent) or agent == "wolf" for agent in self.possible_agents]
        return result


def test_flags_of_agents_are_put_by_name_or_by_a_function():
    def put_all(original, state):
        put(original, state)
        original.here = state["active"]

    by_name = {"place": "place", "timestep": "timestep", "active": "here"}
    for given in (by_name, put_all):
        make = lambda env, given=given: PettingZooReference(env, FlaggedEnv(), given)  # noqa: E731
        report = check_parity(Hunt(), make, episodes=20)
        assert report and {"active", "rewards"} <= set(report.arrays) and report.terminated


def test_rewards_of_the_original_that_are_nan_are_compared():
    report = check_parity(Hunt(), lambda env: hunters(env, price=float("nan")), episodes=5)
    assert not report and report.first.array == "rewards"


def test_actions_of_a_box_without_axes_keep_their_fractions():
    class Throttle(Hunt):
        action_space = spaces.Box(-1.0, 1.0, (), np.float32)

    original, taken = HuntEnv(), []
    original.step = lambda actions: taken.append(actions) or ({}, {}, {"wolf": False}, {}, {})
    PettingZooReference(Throttle(), original, put).step(np.array([0.5, -0.25, 0.0], np.float32))
    assert taken == [{"wolf": 0.5, "a": -0.25, "b": 0.0}]


def test_shipped_environments_name_their_reference():
    report = check_parity("cartpole", episodes=20, seed=7)
    assert report and report.reference == "Gymnasium's CartPoleEnv"
    assert report.episodes >= 40  # step by step, and whole ones
    report = check_parity("tag_gridworld", episodes=10)
    assert report and report.episodes < 40  # whole ones alone: the state is made of integers


@pytest.mark.parametrize(
    ("environment", "reference", "message"),
    [
        (Ball(), None, "environment 'ball' names no reference and has no reference_step"),
        (Ball(), 3, "reference is 3, expected a Gymnasium environment"),
        (Ball(), "ball_env", "expected package.module:Name"),
        (Hunt(), BallEnv, "BallEnv has one agent, environment 'hunt' has 3"),
        (Ball(), HuntEnv(), "HuntEnv has 3 possible agents, environment 'ball' has 1"),
        (Ball(), gymnasium.make("CartPole-v1"), "CartPoleEnv has no attribute 'height', which is an array of 'ball'"),
        (Ball(), lambda env: GymnasiumReference(env, BallEnv(), {"hight": "height"}), "'hight'.*'height'"),
        (Ball(), gymnasium.ObservationWrapper, r"ObservationWrapper\(\) raised TypeError: .*'env'.*pass a function"),
        (
            Ball(),
            lambda **options: BallEnv(),
            r"<lambda>\(environment\) raised TypeError: .*pass a function that takes",
        ),
    ],
)
def test_a_reference_that_cannot_be_compared_is_named(environment, reference, message):
    with pytest.raises(DefinitionError, match=message):
        check_parity(environment, reference, episodes=1)


def test_the_command_compares_with_a_class(tmp_path, monkeypatch, capsys):
    assert main(["check", "cartpole", "--against", "--episodes", "5"]) == 0
    assert "Gymnasium's CartPoleEnv: equal" in capsys.readouterr().out
    here = "test_parity_of_a_ball.py"
    (tmp_path / here).write_text(
        "from warpdrive.envs.cartpole import CartPole\n"
        "class Longer:\n"
        "    def __init__(self, env): self.env = env\n"
        "    def set_state(self, state): self.state = state\n"
        "    def step(self, actions):\n"
        "        self.state = self.env.reference_step(self.state, actions)\n"
        "        return {'rewards': [2.0], 'terminated': self.state['terminated']}\n"
        "    def observations(self): return {}\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["check", "cartpole", "--against", f"{here}:Longer", "--episodes", "5"]) == 1
    assert "rewards[0] of agent 0 is 1, and 2 in the reference" in capsys.readouterr().out
    assert main(["check", "cartpole", "--against", f"{here}:Longer", "--episodes", "5", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert not found["equal"] and found["differences"][0]["array"] == "rewards" and found["episodes"] >= 5


def test_a_package_that_is_missing_is_named() -> None:
    def needs_a_package(env: wd.Environment) -> None:
        import nobodys.package  # type: ignore[import-not-found]  # noqa: F401

    with pytest.raises(DefinitionError, match="'ball' needs nobodys, which is not installed: pip install nobodys"):
        check_parity(Ball(), needs_a_package, episodes=1)


def test_the_interpreted_replica_is_closed(monkeypatch):
    env, closed = Ball(), []
    monkeypatch.setattr(EnvWrapper, "close", lambda self: closed.append(self.env))
    replica = EnvWrapper(env, 1, "cpu")
    saved = replica.save_state()[0]
    line = LastWrites(env).line_of("velocity", (), saved, {"actions": np.array([1], np.int32)})
    assert line.startswith(__file__) and closed == [env]
