"""Capturing and restoring a trainer's state in checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpdrive.environment import Environment
from warpdrive.errors import CheckpointError, ConfigError, shown
from warpdrive.training.checkpoint.checkpoint import Checkpoint, last_whole
from warpdrive.training.checkpoint.run_folder import RunFolder, find_run
from warpdrive.training.checkpoint.space_description import describe_space, space_of
from warpdrive.training.config.load import RunConfig, check_goes_on, load_config
from warpdrive.training.config.named_code import check_named_code
from warpdrive.training.config.yaml import read_yaml

if TYPE_CHECKING:
    from warpdrive.training.trainer import Trainer


def checkpoint_of(trainer: Trainer) -> Checkpoint:
    """See ``Trainer.checkpoint``."""
    with trainer.team.together("checkpoint"):
        kept = {tag: actor.kept_between_steps() for tag, actor in trainer.actors.items()}
        of_replicas = {f"{tag}/{name}": tensor for tag, part in kept.items() for name, tensor in part.items()}
        own = {"simulation": trainer.env.ctx.save_state()[: trainer.share.count], **of_replicas}
        replicas = trainer.team.gather(own) or {}
        episodes = trainer.team.sum_all(trainer.episodes)
    return Checkpoint(
        config=trainer.config.model_dump(mode="json"),
        spaces={
            tag: {
                "observation": describe_space(trainer.env.observation_spaces[tag]),
                "action": describe_space(trainer.env.action_spaces[tag]),
            }
            for tag in trainer.policies
        },
        models={tag: policy.model.state_dict() for tag, policy in trainer.policies.items()},
        state={
            "updates": trainer.updates,
            "env_steps": trainer.env_steps,
            "returns": trainer.returns,
            "episodes": episodes,
            "best": trainer.best,
            "evaluation_under_way": trainer.evaluation_under_way,
            "kept_between_steps": {
                tag: {name: replicas.get(f"{tag}/{name}") for name in part} for tag, part in kept.items()
            },
            "policies": {tag: policy.state_dict() for tag, policy in trainer.policies.items()},
            "opponents": {tag: opponent.state_dict() for tag, opponent in trainer.opponents.items()},
            "simulation": replicas.get("simulation"),
        },
    )


def check_spaces(trainer: Trainer, spaces: Mapping[str, Any], folder: Path) -> None:
    """Check that the spaces of a checkpoint's policies equal those of the trainer.

    Args:
        trainer: the trainer.
        spaces: spaces in the checkpoint, by policy tag.
        folder: folder of the checkpoint, for messages.

    Raises:
        CheckpointError: they differ.
    """
    if set(spaces) != set(trainer.policies):
        raise CheckpointError(
            f"{folder}: has policies of {', '.join(spaces) or 'no tag'}, expected {', '.join(trainer.policies)}"
        )
    for tag, found in spaces.items():
        env = trainer.env
        for kind, expected in (("observation", env.observation_spaces[tag]), ("action", env.action_spaces[tag])):
            if found.get(kind) != describe_space(expected):
                raise CheckpointError(
                    f"{folder}: does not fit the environment as it is now: the {kind} space of '{tag}' was "
                    f"{shown(space_of(found.get(kind)))}, and that of '{env.env_name}' is {shown(expected)}"
                )


def restore(trainer: Trainer, checkpoint: Checkpoint) -> None:
    """See ``Trainer.restore``."""
    state = checkpoint.state
    for count in ("updates", "env_steps"):
        if type(state[count]) is not int or state[count] < 0:
            raise ValueError(f"found {count} = {shown(state[count])}, expected a number")
    trainer.updates, trainer.env_steps, trainer.returns = state["updates"], state["env_steps"], state["returns"]
    trainer.best, trainer.evaluation_under_way = state["best"], state["evaluation_under_way"]
    for name, total in state.get("episodes", {}).items():  # of all processes: one has them now
        trainer.episodes[name].copy_(total * trainer.team.leads)
    for tag, policy in trainer.policies.items():
        policy.model.load_state_dict(checkpoint.models[tag])
        policy.load_state_dict(state["policies"][tag])
    for tag, opponent in trainer.opponents.items():
        opponent.load_state_dict(state["opponents"][tag])
    for tag, actor in trainer.actors.items():
        for name, buffer in actor.kept_between_steps().items():
            buffer.copy_(state["kept_between_steps"][tag][name][trainer.share.rows])
    if trainer.share.count:
        trainer.env.ctx.load_state(state["simulation"][trainer.share.rows].to(trainer.env.device))


def where_it_stopped(
    run: str | Path, overrides: Sequence[str], environment: Environment | None, trust: bool = False
) -> tuple[RunFolder, tuple[Path, Checkpoint] | None, RunConfig]:
    """Return a run's folder, its last undamaged checkpoint, if any, and the configuration to resume with.

    See ``Trainer.resume`` for the arguments.
    """
    folder = find_run(run)
    if folder.checkpoints.exists() and not folder.checkpoints.is_dir():
        raise CheckpointError(f"{folder.checkpoints}: found a file, expected the folder of the run's checkpoints")
    found = last_whole(folder.checkpoints)
    if found is None:
        return folder, None, load_config(folder.config, overrides, environment=environment, trust=trust)
    path, checkpoint = found
    if Path(run).parent.name == "checkpoints" and Path(run).name != path.name:
        raise CheckpointError(f"{run}: the run has gone on since, to {path}; resume {folder.path}")
    if not trust:
        check_named_code(checkpoint.config, path)
    _check_same_environment(folder, path, checkpoint)
    config = load_config(checkpoint.config, overrides, environment=environment)
    check_goes_on(checkpoint.config, config)
    return folder, found, config


def _check_same_environment(folder: RunFolder, path: Path, checkpoint: Checkpoint) -> None:
    """Raise ``CheckpointError`` if a checkpoint has another environment than the run that contains it."""
    try:
        of_run = read_yaml(folder.config).get("env")
    except ConfigError:  # fall back to the checkpoint's configuration, written there next
        return
    names = [env.get("name") if isinstance(env, dict) else None for env in (checkpoint.config.get("env"), of_run)]
    if names[0] != names[1]:
        raise CheckpointError(f"{path}: is of the environment {shown(names[0])}, and the run of {shown(names[1])}")
