"""Process group of this process, and its share of the replicas."""

from __future__ import annotations

import os
from dataclasses import replace

import torch

from warpdrive.env_wrapper import EnvWrapper
from warpdrive.errors import ConfigError, TeamError, shown
from warpdrive.training.distributed.process_group import SINGLE_PROCESS, ProcessGroup, Share

RUN = "run"
"""Name under which restarted processes recall the folder of the run."""

_process_group: ProcessGroup | None = None


def join(timeout: float = 1800.0) -> ProcessGroup:
    """Return the process group of this process: the group already joined, or that of the environment variables.

    These are ``RANK``, ``WORLD_SIZE``, ``LOCAL_RANK``, ``MASTER_ADDR`` and ``MASTER_PORT``, as set by ``torchrun`` and
    ``warpdrive train -n``. Without ``WORLD_SIZE`` it is a single process.

    Args:
        timeout: Seconds to wait for a process that is alive, see ``trainer.process_timeout``. Only that of the first
            call has an effect.

    Raises:
        TeamError: If variables are missing or invalid, or processes have not arrived in time: reports which.
    """
    global _process_group
    if _process_group is None and (size := _number("WORLD_SIZE", 1, least=1)) > 1:
        from warpdrive.training.distributed.rendezvous import perform_rendezvous  # not needed by a single process

        rank, local_size = _number("RANK", 0, most=size - 1), _number("LOCAL_WORLD_SIZE", 1, least=1)
        _process_group = perform_rendezvous(os.environ, rank, size, local_size, timeout)
    return _process_group or SINGLE_PROCESS


def stay_alone() -> None:
    """Join no process group, whatever the environment variables say: another library synchronises the processes."""
    global _process_group
    _process_group = SINGLE_PROCESS


def local_rank() -> int:
    """Return the local rank of this process on this machine."""
    return _number("LOCAL_RANK", 0) if join().world_size > 1 else 0


def check_gpus(local_size: int, fraction: float | None) -> None:
    """Assign this process its share of a GPU, or a whole one.

    Raises:
        ConfigError: If another process of this machine would use the same GPU.
    """
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not gpus:
        return
    if local_size > gpus and fraction is None:
        raise ConfigError(
            f"{local_size} processes on a machine with {gpus} GPUs: each needs 300 to 700 MB for its context, and a "
            f"GPU runs them in turn; start {gpus}, or set trainer.gpu_memory_fraction (such as {gpus / local_size:.2g})"
        )
    if fraction is not None:
        torch.cuda.set_per_process_memory_fraction(fraction, local_rank() % gpus)


def share_of(process_group: ProcessGroup, env: EnvWrapper, dedicated_learner: bool = False) -> Share:
    """Return the range of the replicas of ``env`` among all; with a ``dedicated_learner`` rank 0 has none.

    Args:
        process_group: Process group.
        env: Replicas of this process.
        dedicated_learner: See ``trainer.dedicated_learner``.

    Returns:
        First replica and number of replicas of this process, and their total over processes.

    Raises:
        ConfigError: If the replicas of the processes are not consecutive.
    """
    if process_group.world_size == 1:
        return Share(0, env.num_envs, env.num_envs)
    own = Share(0, 0, 0) if dedicated_learner and process_group.is_leader else Share(env.first_env, env.num_envs, 0)
    first = 0
    for rank, (theirs, count) in enumerate(process_group.all_gather_values((own.first, own.count))):
        if theirs != first:
            raise ConfigError(
                f"the replicas of rank {rank} begin with number {theirs}, expected {first}: give EnvWrapper "
                "process_id=<rank>, or first_env=<replicas of all ranks before>, so that no two replicas draw the "
                "same random numbers (or trainer.num_envs differs between the run configurations)"
                + ("; with trainer.dedicated_learner rank 0 has none" if dedicated_learner else "")
            )
        first += count
    return replace(own, total=first)


def _number(variable: str, default: int, least: int = 0, most: int | None = None) -> int:
    text = os.environ.get(variable) or str(default)
    if not text.isdecimal() or int(text) < least or (most is not None and int(text) > most):
        expected = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise TeamError(f"the environment variable {variable} is {shown(text)}, expected a number {expected}")
    return int(text)
