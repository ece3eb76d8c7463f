"""Classic-control environments, compared with Gymnasium's classes."""

from __future__ import annotations

import inspect
import math

import gymnasium
import numpy as np
import pytest
from exhaustive import exhaustive
from gymnasium.envs import classic_control

import warpdrive as wd
from warpdrive.errors import DefinitionError
from warpdrive.testing import check_parity

REGISTERED = {
    "cartpole": "CartPole-v1",
    "acrobot": "Acrobot-v1",
    "mountain_car": "MountainCar-v0",
    "continuous_mountain_car": "MountainCarContinuous-v0",
    "pendulum": "Pendulum-v1",
}

OTHER_CONSTANTS = {
    "cartpole": {
        "gravity": 12.0,
        "cart_mass": 0.7,
        "pole_mass": 0.3,
        "pole_half_length": 0.8,
        "push_force": 25.0,
        "time_step": 0.03,
        "largest_position": 0.6,
        "largest_angle": 0.7,
        "start_range": 0.3,
        "episode_length": 40,
        "see_velocities": False,
    },
    "acrobot": {
        "torques": [-3.0, 0.5, 2.0, 4.0],
        "length_1": 0.8,
        "mass_1": 1.3,
        "mass_2": 0.6,
        "com_1": 0.3,
        "com_2": 0.7,
        "inertia": 0.5,
        "largest_velocity_1": 3.0,
        "largest_velocity_2": 5.0,
        "time_step": 0.1,
        "start_range": 2.0,
        "episode_length": 60,
    },
    "mountain_car": {
        "force": 0.003,
        "gravity": 0.004,
        "min_position": -0.9,
        "max_position": 0.7,
        "max_speed": 0.05,
        "goal_position": 0.3,
        "goal_velocity": 0.03,
        "start_low": -0.7,
        "start_high": 0.0,
        "episode_length": 60,
    },
    "continuous_mountain_car": {
        "power": 0.004,
        "largest_action": 0.7,
        "min_position": -0.9,
        "max_position": 0.7,
        "max_speed": 0.05,
        "goal_position": 0.3,
        "goal_velocity": 0.03,
        "start_low": -0.7,
        "start_high": 0.0,
        "episode_length": 60,
    },
    "pendulum": {
        "gravity": 6.0,
        "mass": 0.7,
        "length": 1.5,
        "largest_torque": 5.0,
        "largest_velocity": 3.0,
        "time_step": 0.1,
        "largest_start_angle": 2.0,
        "largest_start_velocity": 2.5,
        "episode_length": 40,
    },
}


@pytest.mark.parametrize("name", REGISTERED)
def test_defaults_are_those_registered_in_gymnasium(name):
    env, spec = wd.make(name), gymnasium.spec(REGISTERED[name])
    original = getattr(classic_control, spec.entry_point.rpartition(":")[2])()
    assert env.episode_length == spec.max_episode_steps
    assert env.observation_space == original.observation_space and env.action_space == original.action_space
    for constant, value in vars(env._gymnasium).items():
        if isinstance(value, (int, float)):
            assert value == pytest.approx(getattr(original, constant), rel=1e-12), constant


@pytest.mark.parametrize("others", exhaustive((False, True), (True,)), ids=["as_registered", "other_constants"])
@pytest.mark.parametrize("name", REGISTERED)
def test_steps_agree_with_gymnasium(name, others, python_backend):
    env = wd.make(name, **(OTHER_CONSTANTS[name] if others else {}))
    found = check_parity(env, episodes=10, steps=1500, whole_episodes=False, seed=1, backend=python_backend)
    assert found
    assert found.largest <= env.parity["tolerance"]  # absolute
    assert found.steps >= 1500 and found.episodes >= 10


@pytest.mark.parametrize(
    "name",
    exhaustive([name for name in REGISTERED if name != "acrobot"], ("cartpole",)),  # acrobot's dynamics are chaotic
)
def test_episodes_agree_with_gymnasium(name, python_backend):
    env = wd.make(name)
    found = check_parity(env, episodes=20, steps=2000, whole_episodes=True, seed=2, replicas=20, backend=python_backend)
    assert found
    assert found.largest <= env.parity["episode_tolerance"]  # absolute
    assert found.episodes >= 20


def test_comparisons_notice_other_physics_and_other_ends():
    env = wd.make("cartpole")
    env._gymnasium.gravity = 9.81
    found = check_parity(env, episodes=20, whole_episodes=False)
    assert not found and found.first.array == "angular_velocity"
    env = wd.make("cartpole")
    env._gymnasium.theta_threshold_radians = 0.15
    found = check_parity(env, episodes=20, whole_episodes=False)
    assert not found and found.first.array == "terminated" and found.first.step > 0


START_RANGES = {
    "cartpole": dict.fromkeys(("position", "velocity", "angle", "angular_velocity"), (-0.05, 0.05)),
    "acrobot": dict.fromkeys(("angle_1", "angle_2", "velocity_1", "velocity_2"), (-0.1, 0.1)),
    "mountain_car": {"position": (-0.6, -0.4), "velocity": (0.0, 0.0)},
    "continuous_mountain_car": {"position": (-0.6, -0.4), "velocity": (0.0, 0.0)},
    "pendulum": {"angle": (-math.pi, math.pi), "velocity": (-1.0, 1.0)},
}


@pytest.mark.parametrize("name", START_RANGES)
def test_start_states_are_uniform_and_new_in_every_episode(name, python_backend):
    wrapper = wd.EnvWrapper(wd.make(name), 4000, python_backend, seed=5)
    first = {array: wrapper.ctx[array].cpu().numpy().copy() for array in START_RANGES[name]}
    wrapper.reset()
    for array, (low, high) in START_RANGES[name].items():
        for values in (first[array], wrapper.ctx[array].cpu().numpy()):
            if low == high:
                assert (values == low).all()
                continue
            assert low <= values.min() and values.max() <= high
            # Kolmogorov and Smirnov: 4000 uniform numbers are further from their distribution once in 10**7
            distance = np.abs(np.sort(values) - np.linspace(low, high, 4000)).max() / (high - low)
            assert distance < math.sqrt(math.log(2 / 1e-7) / 2 / 4000) + 1 / 4000
        if low < high:
            assert (first[array] != wrapper.ctx[array].cpu().numpy()).mean() > 0.99
    independent = [values for values in first.values() if values.any()]
    correlations = np.corrcoef(independent)[np.triu_indices(len(independent), 1)] if len(independent) > 1 else [0]
    assert np.abs(correlations).max() < 5.5 / math.sqrt(4000)  # false alarm: 4e-8 for each pair


VALLEY = {
    "gravity": -1,
    "min_position": 0.6,
    "max_position": -1.3,
    "max_speed": 0,
    "goal_position": math.inf,
    "goal_velocity": math.nan,
    "start_low": -1.3,
    "start_high": -0.7,
    "episode_length": 0,
}
WRONG = {
    "cartpole": {
        "gravity": -1,
        "cart_mass": 0,
        "pole_mass": 0,
        "pole_half_length": 0,
        "push_force": -1,
        "time_step": 0,
        "largest_position": 0,
        "largest_angle": 3.2,
        "start_range": -0.1,
        "episode_length": 0,
        "see_velocities": 1,
    },
    "acrobot": {
        "torques": [],
        "gravity": -1,
        "length_1": 0,
        "length_2": 0,
        "mass_1": 0,
        "mass_2": 0,
        "com_1": 0,
        "com_2": 0,
        "inertia": 0,
        "largest_velocity_1": 0,
        "largest_velocity_2": 0,
        "time_step": 0,
        "start_range": -0.1,
        "episode_length": 0,
    },
    "mountain_car": {
        "force": -1,
        **VALLEY,
    },
    "continuous_mountain_car": {
        "power": -1,
        "largest_action": 0,
        "action_cost": -0.1,
        "goal_reward": -1,
        **VALLEY,
    },
    "pendulum": {
        "gravity": -1,
        "mass": 0,
        "length": 0,
        "largest_torque": 0,
        "largest_velocity": 0,
        "time_step": 0,
        "largest_start_angle": 3.2,
        "largest_start_velocity": -1,
        "episode_length": 0,
    },
}


@pytest.mark.parametrize("name", WRONG)
def test_every_parameter_is_checked(name):
    environment = type(wd.make(name))
    assert set(inspect.signature(environment).parameters) == set(WRONG[name])
    for parameter, wrong in WRONG[name].items():
        named = "max_position" if parameter == "min_position" else parameter  # the message names the later of the two
        for value in (wrong, "much", None):
            with pytest.raises(DefinitionError, match=rf"^({named}|{parameter}) is .*, but it must be "):
                environment(**{parameter: value})
