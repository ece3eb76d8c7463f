"""Which team a process belongs to, and which replicas it has."""

from __future__ import annotations

import os
from dataclasses import replace

import torch

from warpdrive.env_wrapper import EnvWrapper
from warpdrive.errors import ConfigError, TeamError, shown
from warpdrive.training.distributed.team import ALONE, Share, Team

RUN = "run"
"""What processes that are restarted recall: the folder of the run."""

_team: Team | None = None


def join(timeout: float = 1800.0) -> Team:
    """The team of this process: the one that it joined before, else the one that the environment variables tell of.

    ``RANK``, ``WORLD_SIZE``, ``LOCAL_RANK``, ``MASTER_ADDR`` and ``MASTER_PORT``, as ``torchrun`` and
    ``warpdrive train -n`` set them. Without ``WORLD_SIZE`` it is a process alone.

    Args:
        timeout: seconds that processes may wait for one that is alive, see ``trainer.process_timeout``. What counts is
            that of the first call.

    Raises:
        TeamError: variables are missing, or processes have not arrived in time: which.
    """
    global _team
    if _team is None and _number("WORLD_SIZE", 1, least=1) > 1:
        from warpdrive.training.distributed.rendezvous import meet  # what a process alone does without

        _team = meet(os.environ, timeout)
    return _team or ALONE


def stay_alone() -> None:
    """Join nobody, whatever the environment variables say: somebody else lets this process learn with others."""
    global _team
    _team = ALONE


def local_rank() -> int:
    """The number of this process among those of its team on this machine."""
    return _number("LOCAL_RANK", 0) if join().size > 1 else 0


def check_gpus(local_size: int, fraction: float | None) -> None:
    """Give this process its part of a GPU, or all of it.

    Raises:
        ConfigError: another process of this machine would have the same GPU.
    """
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not gpus:
        return
    if local_size > gpus and fraction is None:
        raise ConfigError(
            f"{local_size} processes on a machine with {gpus} GPUs: each needs 300 to 700 MB for its context, and a "
            f"GPU runs them in turn; start {gpus}, or set trainer.gpu_memory_fraction (to {gpus / local_size:.2g}, say)"
        )
    if fraction is not None:
        torch.cuda.set_per_process_memory_fraction(fraction, local_rank() % gpus)


def share_of(team: Team, env: EnvWrapper, dedicated_learner: bool = False) -> Share:
    """The replicas that ``env`` has, of those of all processes; with a ``dedicated_learner`` not those of process 0.

    Raises:
        ConfigError: the replicas of the processes do not follow one another.
    """
    if team.size == 1:
        return Share(0, env.num_envs, env.num_envs)
    own = Share(0, 0, 0) if dedicated_learner and team.leads else Share(env.first_env, env.num_envs, 0)
    first = 0
    for rank, (theirs, count) in enumerate(team.gather_objects((own.first, own.count))):
        if theirs != first:
            raise ConfigError(
                f"the replicas of rank {rank} begin with number {theirs}, expected {first}: give EnvWrapper "
                "process_id=<rank>, or first_env=<replicas of all ranks before>, so that no two draw the same "
                "(of run configurations, trainer.num_envs is not the same in all)"
                + ("; with trainer.dedicated_learner rank 0 has none" if dedicated_learner else "")
            )
        first += count
    return replace(own, total=first)


def _number(variable: str, default: int, least: int = 0) -> int:
    text = os.environ.get(variable) or str(default)
    if not text.isdecimal() or int(text) < least:
        raise TeamError(f"the environment variable {variable} is {shown(text)}, expected a number of at least {least}")
    return int(text)
