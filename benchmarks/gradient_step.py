"""Compare gradient steps as native code with PyTorch's, and those of PPO with JAX's, one jitted program.

    python benchmarks/gradient_step.py                  # PPO with 256, 1024 and 8192 rows, and with recurrent models;
                                                        # DDPG, TD3 and SAC with 256
    python benchmarks/gradient_step.py --rows 512       # PPO with others
    python benchmarks/gradient_step.py --threads 2      # native code on one thread and on two

The models of PPO are those of cartpole: 4-64-64 with tanh for the policy and for the value. A step gathers the rows of
a minibatch by index, computes forward pass, loss, backward pass and gradient norm, clips, and takes Adam's step.

Recurrent models are that of cartpole_recurrent, 64 units after a layer of 64, which policy and value function share;
minibatches are 16 sequences of 32 steps.

DDPG, TD3 and SAC have the observations and actions of pendulum, and layers with relu. A step samples 256 transitions,
and includes targets, critics, policy (with TD3 every other step), temperature and target networks; an update takes 16
steps, or one.

Figures are microseconds of processor time on one thread, medians of alternating rounds of 16 steps. With ``--threads``
they are microseconds that pass, minima of rounds.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import numpy as np
import torch
from gymnasium import spaces

from harness.measure import machine, medians
from harness.training.settings import Settings
from warpdrive.backends.host.workers import set_num_threads
from warpdrive.training.algorithms import build_algorithm
from warpdrive.training.algorithms.ddpg import DDPGConfig
from warpdrive.training.algorithms.ppo import PPO, PPOConfig
from warpdrive.training.algorithms.sac import SACConfig
from warpdrive.training.algorithms.task import Task, UpdateKind, adam
from warpdrive.training.algorithms.td3 import TD3Config
from warpdrive.training.experience.batch import Batch
from warpdrive.training.experience.replay_buffer import ReplayBuffer
from warpdrive.training.experience.sequences import Sequences
from warpdrive.training.experience.transitions import Transitions
from warpdrive.training.models import build_actor_critic, seeded
from warpdrive.training.models.recurrent import CELLS

STEPS = 16
OFF_POLICY = {"DDPG": DDPGConfig, "TD3": TD3Config, "SAC": SACConfig}


def batch_of(rows: int) -> Batch:
    """Return random rows."""
    columns = torch.randn(4, rows)
    return Batch(
        observations=torch.randn(rows, 4),
        actions=torch.randint(0, 2, (rows,), dtype=torch.int32),
        log_probabilities=torch.full((rows,), 0.5).log(),
        values=columns[1],
        advantages=columns[2],
        returns=columns[3],
        weight=torch.ones(rows),
    )


def warpdrive(rows: int, update: UpdateKind) -> Callable[[], object]:
    """Return an update of ``STEPS`` gradient steps of WarpDrive."""
    observations, actions = spaces.Box(-np.inf, np.inf, (4,)), spaces.Discrete(2)
    config = PPOConfig(algorithm="ppo", epochs=1, minibatches=STEPS, entropy_coef=0.0)
    with seeded(0):
        model, batch = build_actor_critic(config.model, observations, actions), batch_of(rows * STEPS)
    algorithm = PPO(config, model, config.acting_distribution(actions), adam(model, eps=1e-5))
    algorithm.compile_actor_critic(Task("agent", torch.zeros(1), observations, actions, 1, None, 0, update=update), PPO)  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(0)
    return lambda: algorithm.update(batch, generator)


def recurrent(kind: str, update: UpdateKind) -> Callable[[], object]:
    """Return an update of ``STEPS`` gradient steps of PPO with recurrent units.

    Args:
        kind: type of the units.
        update: ``trainer.update``.
    """
    steps, count = 32, 16 * STEPS
    observations, actions = spaces.Box(-np.inf, np.inf, (2,)), spaces.Discrete(2)
    model_options = {"type": kind, "hidden": [64], "units": 64, "normalize_observations": True}
    options = {"epochs": 1, "minibatches": STEPS, "entropy_coef": 0.0, "model": model_options}
    config = PPOConfig.model_validate({"algorithm": "ppo", **options})
    backend: object = SimpleNamespace(device=torch.device("cpu"))
    task = Task("agent", torch.zeros(1), observations, actions, 1, backend, 0, update=update)  # type: ignore[arg-type]
    algorithm, _ = build_algorithm(config, task)
    assert isinstance(algorithm, PPO)
    with seeded(0):
        sequences = Sequences(torch.zeros(count, algorithm.state_size), torch.rand(steps, count) < 0.02)
        batch = replace(batch_of(steps * count), observations=torch.randn(steps * count, 2), sequences=sequences)
    generator = torch.Generator().manual_seed(0)
    return lambda: algorithm.update(batch, generator)


def jax_program(rows: int) -> Callable[[], object]:
    """Return ``STEPS`` gradient steps of the program of ``harness/training/ppo_jax.py``, as one jitted scan."""
    import jax
    import jax.numpy as jnp

    from harness.training.ppo_jax import gradient_step, started

    settings, batch = Settings(minibatch_size=rows), batch_of(rows * STEPS)
    run = started(settings, 0)
    columns = (batch.observations, batch.actions, batch.log_probabilities, batch.advantages, batch.returns)
    data = tuple(jnp.asarray(column.numpy()) for column in columns)
    carry = (run.parameters, run.first_moments, run.second_moments, run.gradient_steps)

    @jax.jit
    def steps(carry: object, data: object, order: object) -> object:
        minibatches = jax.tree.map(lambda column: column[order].reshape(STEPS, rows, *column.shape[1:]), data)
        return jax.lax.scan(lambda now, part: gradient_step(now, part, settings), carry, minibatches)[0]

    order = jnp.asarray(np.random.default_rng(0).permutation(rows * STEPS))
    return lambda: jax.block_until_ready(steps(carry, data, order))


def off_policy(name: str, hidden: int, at_once: int, update: UpdateKind) -> Callable[[], object]:
    """Return ``STEPS`` gradient steps of an off-policy algorithm.

    Args:
        name: key of ``OFF_POLICY``.
        hidden: units of both hidden layers.
        at_once: gradient steps per update.
        update: ``trainer.update``.
    """
    options = {"batch_size": 256, "learning_starts": 0, "model": {"hidden": [hidden, hidden], "activation": "relu"}}
    config = OFF_POLICY[name].model_validate({"algorithm": name.lower(), "gradient_steps": at_once, **options})
    observations, actions = spaces.Box(-np.inf, np.inf, (3,)), spaces.Box(-2.0, 2.0, (1,))
    backend: object = SimpleNamespace(device=torch.device("cpu"))
    task = Task("agent", torch.zeros(1), observations, actions, 1, backend, 0, update=update)  # type: ignore[arg-type]
    algorithm, buffer = build_algorithm(config, task)
    assert isinstance(buffer, ReplayBuffer)
    columns = torch.randn(20_000, 3), torch.randn(20_000, 1), torch.randn(20_000), torch.randn(20_000, 3)
    buffer.add(Transitions(*columns, torch.rand(20_000) < 0.01, torch.ones(20_000)))
    generator = torch.Generator().manual_seed(0)
    return lambda: [algorithm.update(buffer, generator) for _ in range(STEPS // at_once)]


def timed(work: Callable[[], object]) -> Callable[[], float]:
    """Return a function that measures the microseconds of a gradient step."""

    def measure() -> float:
        began = time.process_time()
        work()
        return (time.process_time() - began) / STEPS * 1e6

    return measure


def compare_threads(rows: list[int], threads: int, rounds: int) -> None:
    """Print the table of ``--threads``."""
    print(f"| | 1 thread | {threads} threads | ratio |\n| --- | ---: | ---: | ---: |")
    work = {f"PPO, 64-64, {count} rows": warpdrive(count, "compiled") for count in rows}
    work |= {f"SAC, {hidden}-{hidden}, 256 rows": off_policy("SAC", hidden, STEPS, "compiled") for hidden in (64, 256)}
    for name, steps in work.items():
        least = dict.fromkeys((1, threads), math.inf)
        for count in rounds * [1, threads]:
            set_num_threads(count)
            for _ in range(5):
                began = time.perf_counter()
                steps()
                least[count] = min(least[count], (time.perf_counter() - began) / STEPS * 1e6)
        one, several = least.values()
        print(f"| {name} | {one:,.0f} | {several:,.0f} | {several / one:.2f} |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[256, 1024, 8192], help="rows of a minibatch")
    parser.add_argument("--rounds", type=int, default=15, help="rounds (default: 15)")
    parser.add_argument("--threads", type=int, help="compare native code on one thread and on so many")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.threads is not None:
        print(f"{machine()}\n")
        compare_threads(options.rows, options.threads, options.rounds)
        return
    set_num_threads(1)

    print(f"{machine()}; one thread\n")
    print("| PPO, rows | native code | PyTorch | JAX | native / JAX | native / PyTorch |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for rows in options.rows:
        work = {"native": warpdrive(rows, "compiled"), "torch": warpdrive(rows, "torch")}
        with suppress(ImportError):
            work["jax"] = jax_program(rows)
        found = medians({name: timed(steps) for name, steps in work.items()}, options.rounds)
        native, torch_, jax_ = found["native"], found["torch"], found.get("jax", float("nan"))
        ratios = f"{native / jax_:.2f} | {native / torch_:.2f}"
        print(f"| {rows} | {native:,.0f} | {torch_:,.0f} | {jax_:,.0f} | {ratios} |", flush=True)
    print("\n| PPO, 16 sequences of 32 steps | native code | PyTorch | native / PyTorch |")
    print("| --- | ---: | ---: | ---: |")
    for kind in CELLS:
        of_kind = {update: timed(recurrent(kind, update)) for update in ("compiled", "torch")}
        native, torch_ = medians(of_kind, options.rounds).values()
        print(f"| {kind} | {native:,.0f} | {torch_:,.0f} | {native / torch_:.2f} |", flush=True)
    print("\n| 256 rows | steps per update | native code | PyTorch | native / PyTorch |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, hidden, at_once in product(OFF_POLICY, (64, 256), (STEPS, 1)):
        of = {update: timed(off_policy(name, hidden, at_once, update)) for update in ("compiled", "torch")}
        native, torch_ = medians(of, options.rounds).values()
        times = f"{native:,.0f} | {torch_:,.0f} | {native / torch_:.2f}"
        print(f"| {name}, {hidden}-{hidden} | {at_once} | {times} |", flush=True)


if __name__ == "__main__":
    main()
