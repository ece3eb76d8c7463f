"""Table of the training algorithms.

An algorithm is one file: the section of the policy in the run configuration, its loss, its update, and ``build``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import nn

from warpdrive.errors import ConfigError
from warpdrive.training.algorithms import a2c, custom, ddpg, dqn, mappo, ppo, pqn, qmix, reinforce, sac, td3, vdn
from warpdrive.training.algorithms.base import Algorithm, LearningConfig, optimizer_step
from warpdrive.training.algorithms.on_policy import ActorCriticAlgorithm, OnPolicyConfig
from warpdrive.training.algorithms.static_step import StaticStep
from warpdrive.training.algorithms.task import ExperienceSource, Task
from warpdrive.training.distributed.process_group import SINGLE_PROCESS, ProcessGroup
from warpdrive.training.models.running_moments import RunningMoments

ALGORITHMS: dict[type[LearningConfig], Callable[[Any, Task], tuple[Algorithm[Any], ExperienceSource]]] = {
    reinforce.ReinforceConfig: reinforce.build,
    a2c.A2CConfig: a2c.build,
    ppo.PPOConfig: lambda config, task: (mappo if config.centralized_critic else ppo).build(config, task),
    dqn.DQNConfig: dqn.build,
    pqn.PQNConfig: pqn.build,
    vdn.VDNConfig: vdn.build,
    qmix.QMIXConfig: qmix.build,
    ddpg.DDPGConfig: ddpg.build,
    td3.TD3Config: td3.build,
    sac.SACConfig: sac.build,
    custom.CustomConfig: custom.build,
}
"""Functions that build the algorithm and its source of experience, by the section of the run configuration."""


def build_algorithm(config: LearningConfig, task: Task) -> tuple[Algorithm[Any], ExperienceSource]:
    """Build the algorithm that ``config`` describes, with a new model, and its source of experience.

    Raises:
        ConfigError: If ``trainer.update`` is ``"compiled"``, and there is no native code for the algorithm and model.
    """
    algorithm, source = ALGORITHMS[type(config)](config, task)
    if task.update == "compiled" and algorithm.not_compiled:
        raise ConfigError(f"trainer.update: found 'compiled', but policy '{task.tag}': {algorithm.not_compiled}")
    algorithm.not_captured = _why_not_captured(algorithm, task)
    if not algorithm.not_captured and task.graphs is not None:
        algorithm.static_step = StaticStep(algorithm, task.graphs)
    if task.sharding.process_group.world_size > 1:
        _share(algorithm, task.sharding.process_group, config.off_policy)
    return algorithm, source


def _why_not_captured(algorithm: Algorithm[Any], task: Task) -> str:
    """Return the reason why gradient steps are not captured as a CUDA graph; empty if they are."""
    if task.graphs is None or not task.graphs.captures:
        return "trainer.use_cuda_graph: off" if task.device.type == "cuda" else "there are no CUDA graphs on the CPU"
    if task.sharding.process_group.world_size > 1:
        return "gradients are summed over several processes"
    if getattr(algorithm.config, "function", None) is not None:
        return "the algorithm is user-defined"
    return ""


def _share(algorithm: Algorithm[Any], process_group: ProcessGroup, sees_all: bool) -> None:
    """Make optimizer steps and running moments include the rows of all processes of a group.

    Args:
        algorithm: The algorithm.
        process_group: Process group.
        sees_all: True if every process observes the rollouts of all.
    """
    algorithm.optimizer_step = partial(optimizer_step, process_group=process_group)
    parts = [part for part in algorithm.parts().values() if isinstance(part, nn.Module)]
    for module, observes_all in ((nn.ModuleList(parts), algorithm.parts_observe_all), (algorithm.model, sees_all)):
        for part in module.modules():
            if isinstance(part, RunningMoments):
                part.process_group = SINGLE_PROCESS if observes_all else process_group


def replaceable_class(config: OnPolicyConfig) -> type[ActorCriticAlgorithm[Any]]:
    """Return the class of an actor-critic algorithm, from which a ``function`` in its place is derived."""
    if isinstance(config, ppo.PPOConfig):
        return mappo.MAPPO if config.centralized_critic else ppo.PPO
    return a2c.A2C
