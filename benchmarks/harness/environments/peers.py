"""Benchmarks of environments of other libraries, stepped with random actions.

Actions are sampled in advance, and with JAX in the scan under ``jit``. JaxMARL, Jumanji and pgx run under the
interpreter :data:`python`, as their versions of JAX and NumPy may not be ours. The returned functions raise
:class:`ImportError` if the library is missing.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any

import numba
import numpy as np
import torch

from harness.environments import cartpole_jax, jax_peers
from harness.environments.cartpole_numba import Replicas, stepper
from harness.environments.tag import reference as numpy_reference
from harness.measure import rate
from warpdrive.envs.cartpole import CartPole

os.environ.setdefault("JAX_PLATFORMS", "cpu")

Measure = Callable[[], float]
"""Benchmark that returns environment steps per second."""
Peer = Callable[[int, float], Measure]
"""Function of the number of replicas and the duration in seconds that returns a benchmark."""

python = sys.executable
"""Interpreter that has JaxMARL, Jumanji and pgx."""
versions_in_jax: set[str] = set()
"""Versions of the libraries of that interpreter that have been measured."""

BATCHES = 8
"""The number of precomputed batches of actions, used cyclically."""


def gymnasium_vector(name: str, most: int) -> Peer:
    """Return Gymnasium's vector environment: the vectorised one if available, otherwise a sync vector environment."""

    def make(replicas: int, seconds: float) -> Measure:
        import gymnasium

        replicas = min(replicas, most)
        is_vectorised = gymnasium.spec(name).vector_entry_point is not None
        mode = "vector_entry_point" if is_vectorised else "sync"
        envs = gymnasium.make_vec(name, replicas, vectorization_mode=mode)
        envs.reset(seed=0)
        return _in_turns(envs.step, [envs.action_space.sample() for _ in range(BATCHES)], replicas, seconds)

    return make


def envpool(name: str) -> Peer:
    """Return EnvPool (C++), on all cores."""

    def make(replicas: int, seconds: float) -> Measure:
        import envpool as library

        envs = library.make_gymnasium(name, num_envs=replicas)
        envs.reset()
        actions = [np.stack([envs.action_space.sample() for _ in range(replicas)]) for _ in range(BATCHES)]
        return _in_turns(envs.step, actions, replicas, seconds)

    return make


def gymnax(name: str) -> Peer:
    """Return gymnax (JAX): a scan of steps under ``jit``."""

    def make(replicas: int, seconds: float) -> Measure:
        import gymnax as library
        import jax

        env, constants = library.make(name)

        def step(key: Any, state: Any) -> tuple[Any, Any, Any]:
            key, for_action, for_step = jax.random.split(key, 3)
            action = env.action_space(constants).sample(for_action)
            observation, state, reward, *_ = env.step(for_step, state, action, constants)
            return key, state, (observation, reward)

        steps, carry = jax_peers.scanned(lambda key: env.reset(key, constants)[1], step, replicas)
        return _carried(steps, carry, replicas, seconds)

    return make


def in_jax(library: str, name: str, cores: int) -> Peer:
    """Return JaxMARL, Jumanji or pgx on a number of cores, in a process of :data:`python`; see ``jax_peers.py``."""

    def make(replicas: int, seconds: float) -> Measure:
        program = Path(__file__).parent / "jax_peers.py"
        arguments = map(str, (python, "-W", "ignore", program, library, name, replicas, seconds, cores))
        process = subprocess.Popen([*arguments], stdin=PIPE, stdout=PIPE, stderr=DEVNULL, text=True)
        assert process.stdin is not None and process.stdout is not None
        told, answers = process.stdin, process.stdout
        first = answers.readline().strip()
        if not first or first.startswith("missing: "):
            raise ImportError(first.removeprefix("missing: ") or f"{python} failed")
        versions_in_jax.update(first.split(", "))

        def measure() -> float:
            print(file=told, flush=True)
            return float(answers.readline())

        return measure

    return make


def vmas(name: str) -> Peer:
    """Return VMAS (PyTorch), on all cores."""

    def make(replicas: int, seconds: float) -> Measure:
        import vmas as library

        envs = library.make_env(name, num_envs=replicas, device="cpu", continuous_actions=False)
        actions = [[envs.get_random_action(agent) for agent in envs.agents] for _ in range(BATCHES)]
        measure = _in_turns(envs.step, actions, replicas, seconds)

        def on_all_cores() -> float:
            before = torch.get_num_threads()
            torch.set_num_threads(len(os.sched_getaffinity(0)))
            try:
                return measure()
            finally:
                torch.set_num_threads(before)

        return on_all_cores

    return make


def mpe2(name: str) -> Peer:
    """Return ``mpe2`` (NumPy), with one replica."""
    return _parallel(f"mpe2.{name}_v{4 if name == 'simple_speaker_listener' else 3}")


def magent2() -> Peer:
    """Return ``battle_v4`` of MAgent2 (C++), with one replica."""
    return _parallel("magent2.environments.battle_v4")


def _parallel(module: str) -> Peer:
    def make(replicas: int, seconds: float) -> Measure:
        import importlib

        env = importlib.import_module(module).parallel_env()
        env.reset(seed=0)
        drawn = [{agent: env.action_space(agent).sample() for agent in env.agents} for _ in range(BATCHES)]
        turns = itertools.cycle(drawn)

        def step() -> None:
            env.step(next(turns))
            if not env.agents:
                env.reset()

        return lambda: rate(step, 1, seconds)

    return make


def lbforaging(**parameters: Any) -> Peer:
    """Return ``lbforaging`` (NumPy), with one replica; the parameters are those of our environment."""

    def make(replicas: int, seconds: float) -> Measure:
        from warpdrive.envs.lbf import LevelBasedForaging
        from warpdrive.envs.lbf.reference import original

        return _one_replica(original(LevelBasedForaging(**parameters)), seconds)

    return make


def rware(**parameters: Any) -> Peer:
    """Return ``rware`` (NumPy, NetworkX), with one replica; the parameters are those of our environment."""

    def make(replicas: int, seconds: float) -> Measure:
        from warpdrive.envs.rware import MultiRobotWarehouse
        from warpdrive.envs.rware.reference import original

        return _one_replica(original(MultiRobotWarehouse(**parameters)), seconds)

    return make


def ale_py(game: str) -> Peer:
    """Return ale-py's vector environment of a game with the options of ours, and with as many threads as it likes."""

    def make(replicas: int, seconds: float) -> Measure:
        from ale_py.vector_env import AtariVectorEnv

        envs = AtariVectorEnv(game, replicas, repeat_action_probability=0.25)
        envs.reset(seed=0)
        return _in_turns(envs.step, [envs.action_space.sample() for _ in range(BATCHES)], replicas, seconds)

    return make


def matrixgames(replicas: int, seconds: float) -> Measure:
    """Return a benchmark of ``matrixgames`` (NumPy) with one replica: the climbing game in episodes of 25 steps."""
    from matrixgames.games import MatrixGame

    from warpdrive.envs import matrix_game

    return _one_replica(MatrixGame(matrix_game.MatrixGame().tables, 25, last_action_state=False), seconds)


def connect_four(replicas: int, seconds: float) -> Measure:
    """Return PettingZoo's ``connect_four_v3`` (Python) with one replica and random legal moves, each observed once."""
    from pettingzoo.classic import connect_four_v3

    env, rng = connect_four_v3.raw_env(), np.random.default_rng(0)
    env.reset()

    def step() -> None:
        mask = env.observe(env.agent_selection)["action_mask"]
        env.step(int(rng.choice(np.flatnonzero(mask))))
        if any(env.terminations.values()):
            env.reset()

    return lambda: rate(step, 1, seconds)


def overcooked_ai(**parameters: Any) -> Peer:
    """Return ``overcooked_ai`` (NumPy), with one replica that encodes each state; parameters of our environment."""

    def make(replicas: int, seconds: float) -> Measure:
        from warpdrive.envs.overcooked import Overcooked, reference

        env, rng = Overcooked(**parameters), np.random.default_rng(0)
        reference.observe(env, {**env.initial_state(rng), "timestep": 0})  # creates the instance
        of_grid, state = env.original[0], env.original[0].get_standard_start_state()

        from overcooked_ai_py.mdp.actions import Action

        choices = [[Action.ALL_ACTIONS[i] for i in joint] for joint in rng.integers(6, size=(BATCHES, env.num_agents))]
        turns = itertools.cycle(choices)

        def step() -> None:
            nonlocal state
            state, _ = of_grid.get_state_transition(state, next(turns))
            reference.encoded(env, state)
            if state.timestep >= env.episode_length:
                state = of_grid.get_standard_start_state()

        return lambda: rate(step, 1, seconds)

    return make


def jax_cartpole(replicas: int, seconds: float) -> Measure:
    """Return a benchmark of the cartpole of ``cartpole_jax.py``: a scan of steps under ``jit``."""
    steps, carry = cartpole_jax.scanned(replicas, jax_peers.JAX_STEPS)
    return _carried(steps, carry, replicas, seconds)


def numba_cartpole(cores: int) -> Peer:
    """Return the cartpole of ``cartpole_numba.py``: a plain Numba loop over replicas."""

    def make(replicas: int, seconds: float) -> Measure:
        step, state = stepper(CartPole(), parallel=cores > 1), Replicas.of(replicas)

        def measure() -> float:
            numba.set_num_threads(cores)
            return rate(lambda: step(state), replicas, seconds)

        return measure

    return make


def numpy_tag(name: str, config: dict[str, Any]) -> Peer:
    """Return the NumPy reference of a tag environment, with one replica."""
    return lambda replicas, seconds: numpy_reference(name, config)


def _in_turns(step: Callable[[Any], Any], actions: Sequence[Any], replicas: int, seconds: float) -> Measure:
    turns = itertools.cycle(actions)
    return lambda: rate(lambda: step(next(turns)), replicas, seconds)


def _one_replica(env: Any, seconds: float) -> Measure:
    """Measure steps of an environment of Gymnasium, whose episodes are reset."""
    env.reset(seed=0)
    turns = itertools.cycle([env.action_space.sample() for _ in range(BATCHES)])

    def step() -> None:
        if env.step(next(turns))[2]:
            env.reset()

    return lambda: rate(step, 1, seconds)


def _carried(steps: Callable[[Any], Any], carry: Any, replicas: int, seconds: float) -> Measure:
    import jax

    def work() -> None:
        nonlocal carry
        carry = jax.block_until_ready(steps(carry))

    work()  # compiles
    return lambda: rate(work, replicas * jax_peers.JAX_STEPS, seconds)
