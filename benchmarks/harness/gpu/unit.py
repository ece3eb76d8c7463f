"""Measurement of one unit of ``gpu.py``: an environment, a number of replicas and a backend."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

import warpdrive as wd
from harness.gpu.plan import (
    CALLER,
    CONFIGURATIONS,
    POLICIES,
    RECORDED,
    TRAINING,
    UPDATE,
    Row,
    Setup,
    Unit,
    rollout_length,
)
from harness.measure import seconds_per_call
from harness.traffic import recorded_step_traffic, step_traffic
from warpdrive.step_graph import StepGraphs
from warpdrive.training.config.load import RunConfig, load_config
from warpdrive.training.rollout.loop import RolloutLoop
from warpdrive.training.runtime.torch_threads import torch_threads
from warpdrive.training.trainer import Trainer

DRAWN = 8
"""The number of precomputed actions per replica, used cyclically; a captured step uses all of them."""
STEPS_OF_A_SCAN = 100


def measure(unit: Unit, bandwidth: float, seconds: float) -> Iterator[Row | Setup]:
    """Yield the results of a unit; a failed measurement yields a row with an error.

    Args:
        unit: The unit.
        bandwidth: The bandwidth of a copy in bytes per second, from which limits are computed.
        seconds: The duration of each measurement.
    """
    if unit.backend == "jax":
        yield _scan(unit, seconds)
        return
    config = configuration(unit)
    assert config.env is not None
    environment = wd.make(config.env.name, **config.env.parameters)
    agents, length = int(environment.num_agents), config.trainer.rollout_length
    before = _free_memory()
    start = time.perf_counter()
    env = wd.EnvWrapper(environment, unit.replicas, unit.backend, config.trainer.seed)
    actions = drawn_actions(env)
    env.step(actions[0])
    _wait(env.device)
    setup = Setup(unit.title, unit.replicas, unit.backend, time.perf_counter() - start)
    setup.memory_reported = sum(env.ctx.memory_report().values())
    setup.memory_used = _used_since(before, env.device)
    setup.rollout_length = length
    setup.training = {tag: policy.model_dump() for tag, policy in config.policy.items()}
    moved = {CALLER: step_traffic(environment).total}
    moved |= dict.fromkeys((RECORDED, POLICIES, UPDATE, TRAINING), recorded_step_traffic(environment).total)
    trainers: dict[bool, Trainer] = {}

    def trainer(graph: bool) -> Trainer:
        if graph not in trainers:
            trainers.clear()  # one at a time fits into memory
            gc.collect()
            trainers[graph] = Trainer(env, _with_graph(config, graph))
        return trainers[graph]

    def work(kind: str, graph: bool) -> tuple[Callable[[], object], int]:
        """Return the function to repeat, and the number of steps of every replica per call."""
        if kind == CALLER:
            return given_actions(env, actions, graph), DRAWN
        if kind == RECORDED:
            loop = RolloutLoop(env, trainer(graph).rollout, StepGraphs(env.device, _use(graph)))
            for tag in env.policy_tags:
                env.act_at_random(tag)
            return lambda: loop.fill({}), length
        if kind == POLICIES:
            return trainer(graph).collect, length
        if kind == UPDATE:
            trainer(graph).collect()
            return trainer(graph).update, length
        return lambda: (trainer(graph).collect(), trainer(graph).update()), length

    repeated: Callable[[], object] | None = None
    for kind, graph in unit.expected:
        row = Row(unit.title, agents, unit.replicas, unit.backend, graph, kind, bytes_per_step=moved[kind])
        row.limit = bandwidth / moved[kind]
        repeated = None  # and with it a former trainer's memory
        try:
            with torch_threads(config.trainer.torch_threads):
                repeated, steps = work(kind, graph)
                row.steps_per_second = steps * unit.replicas / seconds_per_call(repeated, env.device, seconds)
        except Exception as error:  # a failure must not prevent the other rows
            row.error = describe(error)
        yield row
    setup.memory_of_training = _used_since(before, env.device)
    setup.replicas_at_once = env.replicas_at_once()  # last, since a failure must not prevent the rows
    yield setup


def configuration(unit: Unit) -> RunConfig:
    """Return the run configuration of a unit."""
    name, parameters = CONFIGURATIONS[unit.title]
    shipped = load_config(name)
    assert shipped.env is not None
    agents = wd.make(shipped.env.name, **{**shipped.env.parameters, **parameters}).num_agents
    trainer = {
        "num_envs": unit.replicas,
        "train_batch_size": unit.replicas * rollout_length(unit.replicas, agents),
        "env_backend": unit.backend,
        "reset_pool_size": 1,
    }
    overrides = [f"trainer.{key}={value}" for key, value in trainer.items()]
    overrides += [f"env.{key}={value}" for key, value in parameters.items()]
    return load_config(name, overrides)


def drawn_actions(env: wd.EnvWrapper) -> list[torch.Tensor]:
    """Return random actions for all replicas, on their device."""
    array = env.ctx["actions"]
    drawn = []
    for number in range(DRAWN):
        generator = torch.Generator(env.device).manual_seed(number)
        uniform = torch.rand(array.shape, generator=generator, device=env.device)
        if array.dtype.is_floating_point:
            drawn.append(2 * uniform - 1)
        else:
            space: Any = next(iter(env.action_spaces.values()))
            choices = torch.tensor(np.atleast_1d(getattr(space, "nvec", getattr(space, "n", 0))), device=env.device)
            drawn.append((uniform * (choices if array.dim() == 3 else choices[0])).to(array.dtype))
    return drawn


def given_actions(env: wd.EnvWrapper, actions: list[torch.Tensor], graph: bool) -> Callable[[], None]:
    """Return a function that steps all replicas with each of the actions in turn."""

    def steps() -> None:
        for given in actions:
            env.step(given)

    def save() -> Callable[[], None]:
        state = env.ctx.save_state()
        return lambda: env.ctx.load_state(state)

    return StepGraphs(env.device, _use(graph)).repeatable(steps, save)


def describe(error: BaseException) -> str:
    """Return the type of an error, and the first line of its message."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]


def _scan(unit: Unit, seconds: float) -> Row:
    row = Row(unit.title, 1, unit.replicas, unit.backend, False, RECORDED)
    try:
        import jax

        from harness.environments.cartpole_jax import scanned

        steps, carry = scanned(unit.replicas, STEPS_OF_A_SCAN)

        def work() -> None:
            nonlocal carry
            carry = steps(carry)
            jax.block_until_ready(carry)

        row.steps_per_second = STEPS_OF_A_SCAN * unit.replicas / seconds_per_call(work, torch.device("cpu"), seconds)
    except Exception as error:
        row.error = describe(error)
    return row


def _with_graph(config: RunConfig, graph: bool) -> RunConfig:
    return load_config(config.model_dump(), [f"trainer.use_cuda_graph={_use(graph)}"])


def _use(graph: bool) -> Any:
    return "on" if graph else "off"


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _free_memory() -> int:
    """Return the free memory of the GPU in bytes, once its context has been created."""
    gc.collect()
    if not torch.cuda.is_available():
        return 0
    torch.zeros(1, device="cuda")
    torch.cuda.empty_cache()
    return int(torch.cuda.mem_get_info()[0])


def _used_since(before: int, device: torch.device) -> int | None:
    return before - int(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else None
