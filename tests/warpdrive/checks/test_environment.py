"""The kernels of all registered environments are clean, and faults of others are found."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import numpy as np
import pytest
from exhaustive import exhaustive
from gymnasium import spaces
from numba import cuda
from paths import SUPPORT
from sound_environments import SOUND, EndsAsItBegan, Leavers

import warpdrive as wd
from warpdrive.checks import check_environment_behaviour, check_environment_kernels
from warpdrive.fused_step.fuse import FusedKernel
from warpdrive.training.cli.main import main

SMALL_TAG = {"num_taggers": 3, "grid_length": 4}


@wd.kernel
def step(position, actions, rewards, terminated, num_agents):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    position[env, agent] = position[env, agent] + np.float32(actions[env, agent])
    rewards[env, agent // num_agents] += position[env, agent] * 0.5  # race
    if agent == 0:
        terminated[env] = position[env, 0] > 4


@wd.kernel
def observe(position, observations):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    observations[env, agent, 0] = position[env, agent + 1]  # outside


class Careless(wd.Environment):
    """Three agents whose kernels race, read beyond an array, and compute in float64."""

    name = "careless"
    step, observe = step, observe

    def __init__(self, num_agents: int = 3, is_continuous: bool = False) -> None:
        self.num_agents, self.episode_length = num_agents, 5
        self.policy_tags = {"all": range(num_agents)}
        self.observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.action_space = spaces.Box(-1, 1, (), np.float32) if is_continuous else spaces.Discrete(2)

    def initial_state(self, rng):
        return {"position": np.ones(self.num_agents, np.float32)}


@wd.kernel
def own_step(position, actions, rewards):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    position[env, agent] += actions[env, agent, 0]
    rewards[env, agent] = position[env, agent]


@wd.kernel
def own_observe(position, observations):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    observations[env, agent, 0] = position[env, agent]


class Careful(Careless):
    """Agents with continuous actions that do not interact."""

    name = "careful"
    step, observe = own_step, own_observe

    def __init__(self, num_agents: int = 3) -> None:
        super().__init__(num_agents)
        self.action_space = spaces.Box(-1, 1, (1,), np.float32)


@wd.kernel
def half_observe(position, rng, observations):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    observations[env, agent, 0] = position[env, agent]
    if position[env, agent] != np.float32(1):
        observations[env, agent, 1] = wd.random.uniform(rng, env, agent)


class Forgetful(Careless):
    """Agents that do not see all of a new start."""

    name = "forgetful"
    step, observe = own_step, half_observe

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Box(-1, 1, (1,), np.float32)


class Elsewhere(Careless):
    """Its reference needs a package that is not installed."""

    name = "elsewhere"

    def reference_step(self, state, actions):
        import package_that_nobody_has  # noqa: F401


def line_of(kernel, text):
    lines, first = inspect.getsourcelines(kernel.function)
    return f"{__file__}:{first + next(n for n, line in enumerate(lines) if text in line)}"


@pytest.mark.parametrize(
    ("name", "config"),
    exhaustive(
        [
            ("simple_tag", {"continuous_actions": True}),
            ("tag_gridworld", {**SMALL_TAG, "use_full_observation": False}),
            (
                "tag_continuous",
                {"num_taggers": 2, "num_runners": 2, "grid_length": 2.0, "tagging_distance": 0.3}
                | {"use_full_observation": False},
            ),
        ],
        ("tag_continuous",),
    ),
)
def test_registered_environments_are_clean(name, config):
    """In other ways through their code than those of ``tests/envs``, where every environment is checked."""
    env = wd.make(name, **config)
    report = check_environment_kernels(env, steps=6, nan=True)
    assert report.clean, str(report)
    assert not report.notes


@pytest.mark.parametrize(
    "environment", exhaustive(SOUND, (EndsAsItBegan, Leavers)), ids=lambda environment: environment.name
)
def test_nothing_is_said_against_sound_environments(environment):
    wd.testing.check_environment(environment(), nan=True)


def test_a_reference_whose_package_is_not_installed_is_noted_once():
    report = check_environment_behaviour(Elsewhere(), steps=4, backend="cpu")
    assert not report.reference
    assert report.notes.count("its reference was not compared: package_that_nobody_has is not installed") == 1


def test_references_without_a_return_are_found(monkeypatch):
    for name in ("reference_step", "reference_observe"):
        monkeypatch.setattr(Forgetful, name, lambda self, *given: None, raising=False)
    report = check_environment_behaviour(Forgetful(), steps=10, backend="cpu")
    told = [finding.message for finding in report.reference]
    expected = ["reference_observe returned None, expected observations", "reference_step returned None, expected a"]
    assert all(any(part in message for message in told) for part in expected), told


def test_checks_without_steps_are_refused():
    with pytest.raises(wd.errors.DefinitionError, match="steps is 0, expected an integer from 1"):
        wd.testing.check_environment(Careful(), steps=0)


def test_observations_that_only_some_starts_write_are_found():
    report = check_environment_behaviour(Forgetful(), steps=10, backend="cpu")
    (finding,) = report.resets
    assert finding.array == "observations" and finding.index[-1] == 1
    assert "observations[0, 1] depends on its previous value" in finding.message


def test_the_library_s_own_kernels_are_checked_as_well(monkeypatch):
    monkeypatch.setattr(FusedKernel, "barrier", lambda self: None)
    report = check_environment_kernels(wd.make("tag_gridworld", **SMALL_TAG), steps=3)
    raced = {Path(line.rpartition(":")[0]).name for finding in report.races for line in finding.lines}
    assert {"episode_log.py", "resetter.py", "rollout_writer.py"} <= raced


def test_episodes_end_and_begin_within_the_steps(monkeypatch):
    ended = []
    close = wd.EnvWrapper.close

    def look(self):
        ended.append(self.ctx["episode.episodes"].tolist())
        close(self)

    monkeypatch.setattr(wd.EnvWrapper, "close", look)
    check_environment_kernels(wd.make("tag_gridworld", **SMALL_TAG, episode_length=1000), steps=3)
    assert min(ended[0]) >= 1


def test_what_is_wrong_with_an_environment_is_found_once_and_counted():
    report = check_environment_kernels(Careless(), steps=4)
    race, outside = line_of(step, "# race"), line_of(observe, "# outside")
    assert {finding.array for finding in report.races} == {"rewards"}
    assert any(set(finding.lines) == {race} for finding in report.races)
    (bounds,) = report.bounds
    assert (bounds.array, bounds.index, bounds.threads, bounds.lines) == ("position", (0, 3), (2,), (outside,))
    assert bounds.count > 4
    assert [(finding.array, finding.lines) for finding in report.float64] == [("0.5", (race,))]


def test_continuous_actions_are_drawn_from_their_space():
    assert check_environment_kernels(Careful(), steps=3).clean


@wd.kernel
def weighted(position, weights, actions):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    position[env, agent] += weights[agent] * actions[env, agent, 0]


class Weighted(Careful):
    """Agents whose weights NumPy made float64: that may be meant."""

    step = weighted

    def __init__(self) -> None:
        super().__init__()
        self.weights = np.array([0.5, 1.0, 2.0])


def test_float64_in_arrays_of_the_environment_is_noted():
    report = check_environment_kernels(Weighted(), steps=2)
    assert report.clean
    (note,) = report.notes
    assert note.startswith("'weights' is an array of float64") and "np.float32" in note


def test_the_helper_for_tests_fails_with_the_findings():
    wd.testing.check_kernels(Careful(), steps=2)
    with pytest.raises(AssertionError, match=r"(?s)'careless' failed their checks.*races.*'rewards"):
        wd.testing.check_kernels(Careless(), steps=2)


# --- the command ---


def test_the_command_exits_with_0_for_a_clean_environment(capsys):
    assert main(["check", "tag_gridworld", "num_taggers=1", "env.grid_length=3", "--steps", "2"]) == 0
    assert "tag_gridworld: clean." in (printed := capsys.readouterr().out.replace("\n", " "))
    assert "Interpreted 2 steps of 2 replicas with 2 agents" in printed
    assert "(spaces, resets, determinism, reference)" in printed


def test_the_command_lists_a_reference_only_if_there_is_one(capsys):
    assert main(["check", f"{SUPPORT / 'sound_environments.py'}:Pushed", "--steps", "2"]) == 0
    assert "(spaces, resets, determinism)" in " ".join(capsys.readouterr().out.split())


def test_the_command_exits_with_1_and_a_table_of_what_was_found(capsys):
    assert main(["check", f"{__file__}:Careless", "--steps", "2"]) == 1
    printed = capsys.readouterr().out
    assert "races" in printed and "bounds" in printed and "float64" in printed
    assert f"{Path(__file__).name}:{line_of(observe, '# outside').rpartition(':')[2]}" in printed


def test_the_command_shows_the_lines_and_what_to_do(capsys):
    main(["check", f"{__file__}:Careless", "--steps", "2"])
    printed = capsys.readouterr().out
    assert "rewards[env, agent // num_agents] += position[env, agent] * 0.5" in printed
    assert "> use cuda.atomic.add(array, index, value)" in printed
    assert "index (0, 3) lies outside of 'position', which has the shape (2, 3)" in printed


def test_the_command_fits_a_narrow_terminal(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    main(["check", f"{__file__}:Careless", "--steps", "2"])
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", capsys.readouterr().out)
    assert max(map(len, plain.splitlines())) <= 60
    assert "cuda.atomic.add" in plain


def test_the_command_prints_json_for_programs(capsys):
    assert main(["check", f"{__file__}:Careless", "--steps", "2", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["environment"], told["clean"]) == ("careless", False)
    (bounds,) = told["bounds"]
    assert (bounds["array"], bounds["index"], bounds["lines"]) == ("position", [0, 3], [line_of(observe, "# outside")])
    assert bounds["sources"] == ["observations[env, agent, 0] = position[env, agent + 1]  # outside"]
    assert main(["check", f"{__file__}:Careful", "--steps", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["clean"]


def test_the_command_takes_run_configurations(tmp_path, capsys):
    text = f"env: {{name: '{__file__}:Careful', num_agents: 2}}\n"
    text += "trainer: {num_envs: 2, train_batch_size: 20, total_steps: 20}\n"
    text += "policy: {all: {algorithm: random}}\n"
    (tmp_path / "run.yaml").write_text(text)
    assert main(["check", str(tmp_path / "run.yaml"), "--steps", "1", "num_agents=3"]) == 0
    assert "3 agents" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tag_gridwrld"], "unknown environment 'tag_gridwrld'. Did you mean 'tag_gridworld'?"),
        (["tag_gridworld", "num_tagers=2"], "unexpected keyword argument 'num_tagers'. Did you mean 'num_taggers'?"),
        (["tag_gridworld", "trainer.num_envs=2"], "trainer.num_envs: expected a parameter of the environment as"),
        (["nowhere.yaml"], "nowhere.yaml"),
    ],
)
def test_the_command_exits_with_2_for_a_mistake(arguments, said, capsys):
    assert main(["check", *arguments]) == 2
    assert said in capsys.readouterr().err


@wd.kernel
def step_of_the_first(position, actions, rewards, num_agents):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if agent > 0:
        return
    cuda.syncthreads()
    if actions[env, 0, 0] >= -2:
        cuda.syncthreads()
    position[env, num_agents - 1] += np.float32(1)


def test_agents_may_leave_a_kernel_function_before_a_barrier():
    env = Careful()
    env.step = step_of_the_first
    assert check_environment_kernels(env, steps=1).clean
