"""Measure the overhead of a step through the interfaces of other libraries, compared with ``env.step``.

TorchRL's overhead is the cost of an empty environment with the same specs; PettingZoo's environment is a single
replica.

python benchmarks/interop.py
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import gymnasium
import numpy as np
import torch

import warpdrive as wd
from harness.measure import machine, medians
from warpdrive.backends.host import workers

CALLS = 1000


def microseconds(step: Callable[[Any], Any], actions: list[Any]) -> Callable[[], float]:
    """Return a benchmark of the CPU time of a call in microseconds, with random actions."""

    def measure() -> float:
        start = time.thread_time()
        for call in range(CALLS):
            step(actions[call % len(actions)])
        return (time.thread_time() - start) / CALLS * 1e6

    return measure


@dataclass
class Candidate:
    """Benchmark, and the names of the benchmarks whose sum it is compared with."""

    measure: Callable[[], float]
    beyond: tuple[str, ...] = ("env.step and copies",)


def candidates(num_envs: int) -> dict[str, Candidate]:
    """Return the benchmarks by name."""
    arrays = [np.random.default_rng(index).integers(0, 2, num_envs) for index in range(64)]
    tensors = [torch.from_numpy(array) for array in arrays]
    env = wd.EnvWrapper(env_name="cartpole", num_envs=num_envs, env_backend="cpu")
    columns = [tensor[:, None] for tensor in tensors]
    found = {
        "env.step": Candidate(microseconds(env.step, columns), ()),
        "env.step and copies": Candidate(microseconds(with_copies(env), columns), ()),
    }
    for mode in ("SameStep", "NextStep"):
        envs = wd.to_gymnasium("cartpole", num_envs, autoreset_mode=mode, env_backend="cpu")
        envs.reset(seed=0)
        found[f"to_gymnasium, {mode}"] = Candidate(microseconds(envs.step, arrays))
    envs = wd.to_gymnasium("cartpole", num_envs, output="torch", env_backend="cpu")
    envs.reset(seed=0)
    found["to_gymnasium, SameStep, torch"] = Candidate(microseconds(envs.step, tensors))
    if find_spec("stable_baselines3"):
        vec_env = wd.to_stable_baselines3("cartpole", num_envs, env_backend="cpu")
        vec_env.reset()
        found["to_stable_baselines3"] = Candidate(microseconds(vec_env.step, arrays))
    if find_spec("rsl_rl"):
        outputs = [torch.rand(num_envs, 2) for _ in range(64)]
        rsl_rl = wd.to_rsl_rl("cartpole", num_envs, env_backend="cpu")
        found["to_rsl_rl"] = Candidate(microseconds(rsl_rl.step, outputs))
    if find_spec("skrl"):
        wrapped = wd.to_skrl("cartpole", num_envs, env_backend="cpu")
        wrapped.reset()
        found["to_skrl"] = Candidate(microseconds(wrapped.step, columns))
    theirs = gymnasium.make_vec("CartPole-v1", num_envs, vectorization_mode="vector_entry_point")
    theirs.reset(seed=0)
    found["Gymnasium's own vectorized CartPole"] = Candidate(microseconds(theirs.step, arrays))
    if find_spec("torchrl"):
        found |= of_torchrl(num_envs, tensors)
    if find_spec("pettingzoo"):
        found |= of_pettingzoo()
    return found


def with_copies(env: wd.EnvWrapper) -> Callable[[Any], None]:
    """Return a function that steps and copies the results to NumPy arrays."""

    def step(actions: Any) -> None:
        observations, rewards, terminated, truncated, _ = env.step(actions)
        for tensor in (observations, rewards, terminated, truncated):
            tensor.numpy().copy()

    return step


def of_torchrl(num_envs: int, actions: list[torch.Tensor]) -> dict[str, Candidate]:
    """Return the benchmarks of ``to_torchrl``, and of an empty TorchRL environment."""
    from tensordict import TensorDict
    from torchrl.envs import EnvBase

    env = wd.to_torchrl("cartpole", num_envs, env_backend="cpu")
    first = env.reset()
    later = env.rand_step(first.clone())["next"]
    later["done"] = later["terminated"] = torch.rand(num_envs, 1) < 0.05  # as many as with random actions

    class Nothing(EnvBase):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(device=env.device, batch_size=env.batch_size)
            self.observation_spec, self.action_spec = env.full_observation_spec.clone(), env.full_action_spec.clone()
            self.reward_spec, self.done_spec = env.full_reward_spec.clone(), env.full_done_spec.clone()

        def _reset(self, tensordict: Any = None, **kwargs: Any) -> TensorDict:
            return TensorDict(dict(first.items()), self.batch_size, device=self.device)

        def _step(self, tensordict: Any) -> TensorDict:
            return TensorDict(dict(later.items()), self.batch_size, device=self.device)

        def _set_seed(self, seed: int | None) -> None: ...

    def candidate(env: EnvBase, resets: bool) -> Callable[[], float]:
        current = env.reset()

        def step(actions: torch.Tensor) -> None:
            nonlocal current
            current["action"] = actions
            _, current = env.step_and_maybe_reset(current)

        def step_alone(actions: torch.Tensor) -> None:
            env.step(current.copy().set("action", actions))

        return microseconds(step if resets else step_alone, actions)

    found = {}
    for title, resets in (("step", False), ("step_and_maybe_reset", True)):
        nothing = f"TorchRL, {title} that does nothing"
        found[nothing] = Candidate(candidate(Nothing(), resets), ())
        found[f"to_torchrl, {title}"] = Candidate(candidate(env, resets), ("env.step", nothing))
    return found


def of_pettingzoo() -> dict[str, Candidate]:
    """Return the benchmarks of ``to_pettingzoo``, and of the same environment of another library."""
    from mpe2 import simple_spread_v3

    single = wd.EnvWrapper(env_name="simple_spread", env_backend="cpu")
    copies = "env.step and copies, simple_spread, 1 replica"
    found = {copies: Candidate(microseconds(with_copies(single), [torch.ones(1, 3, dtype=torch.int64)]), ())}

    def candidate(env: Any) -> Callable[[], float]:
        env.reset()
        actions = dict.fromkeys(env.possible_agents, 1)

        def step(_: Any) -> None:
            if not env.agents:
                env.reset()
            env.step(actions)

        return microseconds(step, [None])

    parallel = wd.to_pettingzoo("simple_spread", env_backend="cpu")
    found["to_pettingzoo, simple_spread"] = Candidate(candidate(parallel), (copies,))
    found["mpe2's own simple_spread"] = Candidate(candidate(simple_spread_v3.parallel_env(max_cycles=25)), (copies,))
    return found


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="measurements of each candidate (default: 7)")
    parser.add_argument("--num-envs", type=int, default=1024, help="number of replicas (default: 1024)")
    options = parser.parse_args()
    workers.set_num_threads(1)  # CPU time is that of one thread
    torch.set_num_threads(1)
    print(machine())
    print(f"cartpole, {options.num_envs} replicas: microseconds of CPU time per call, medians of {options.rounds}\n")
    found = candidates(options.num_envs)
    figures = medians({name: candidate.measure for name, candidate in found.items()}, options.rounds)
    for name, figure in figures.items():
        beyond = found[name].beyond
        note = f"   ({figure - sum(figures[one] for one in beyond):+.1f} to {' + '.join(beyond)})" if beyond else ""
        print(f"{name:45} {figure:8.1f}{note}")


if __name__ == "__main__":
    main()
