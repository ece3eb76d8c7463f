"""Capturing and restoring the state of a learner and its run in checkpoints.

It consists of the replicas with their random states and episode statistics, policies, optimizers, random generators and
the progress. Later rows of ``metrics.csv`` are removed and logged again. On the CPU backend the result is bitwise equal
to that of an uninterrupted run. An interval that Ctrl-C ends is not logged, but continued. The folder is locked while a
process trains in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpdrive.environment import Environment
from warpdrive.errors import CheckpointError, ConfigError, shown
from warpdrive.training.checkpoint.checkpoint import Checkpoint, last_undamaged
from warpdrive.training.checkpoint.run_folder import RunFolder, find_run
from warpdrive.training.checkpoint.space_description import describe_space, space_of
from warpdrive.training.config.load import RunConfig, check_resumable, load_config
from warpdrive.training.config.named_code import check_named_code
from warpdrive.training.config.yaml import read_yaml

CHECKPOINT = "checkpoint"
"""Name of the collective operation that gathers a checkpoint, see ``ProcessGroup.collective``."""

if TYPE_CHECKING:
    from warpdrive.env_wrapper import EnvWrapper
    from warpdrive.training.learner import Learner
    from warpdrive.training.run.state import RunState


def checkpoint_of(learner: Learner, run: RunState) -> Checkpoint:
    """See ``Trainer.checkpoint``."""
    with learner.process_group.collective(CHECKPOINT):
        kept = {tag: actor.kept_between_steps() for tag, actor in learner.actors.items()}
        of_replicas = {f"{tag}/{name}": tensor for tag, part in kept.items() for name, tensor in part.items()}
        own = {"simulation": learner.env.save_state()[: learner.share.count], **of_replicas}
        replicas = learner.process_group.gather(own) or {}
        episodes = learner.process_group.all_reduce_tensors(learner.episodes)
    return replace(
        models_of(learner),
        state={
            "updates": learner.updates,
            "env_steps": learner.env_steps,
            "returns": run.returns,
            "episodes": episodes,
            "best": run.best,
            "evaluation_under_way": run.evaluation_under_way,
            "kept_between_steps": {
                tag: {name: replicas.get(f"{tag}/{name}") for name in part} for tag, part in kept.items()
            },
            "policies": {tag: policy.state_dict() for tag, policy in learner.policies.items()},
            "opponents": {tag: opponent.state_dict() for tag, opponent in learner.opponents.items()},
            "simulation": replicas.get("simulation"),
            "layout": learner.env.ctx.state_layout,
        },
    )


def models_of(learner: Learner) -> Checkpoint:
    """Return a checkpoint without the state of the trainer: configuration, spaces and models."""
    return Checkpoint(
        config=learner.config.model_dump(mode="json"),
        spaces={
            tag: {
                "observation": describe_space(learner.env.observation_spaces[tag]),
                "action": describe_space(learner.env.action_spaces[tag]),
            }
            for tag in learner.policies
        },
        models={tag: policy.model.state_dict() for tag, policy in learner.policies.items()},
        state={},
    )


def check_spaces(learner: Learner, spaces: Mapping[str, Any], folder: Path) -> None:
    """Check that the spaces of a checkpoint's policies equal those of the learner.

    Args:
        learner: The learner.
        spaces: Spaces in the checkpoint, by policy tag.
        folder: Folder of the checkpoint, for messages.

    Raises:
        CheckpointError: If they differ.
    """
    if set(spaces) != set(learner.policies):
        raise CheckpointError(
            f"{folder}: has policies of {', '.join(spaces) or 'no tag'}, expected {', '.join(learner.policies)}"
        )
    for tag, found in spaces.items():
        check_spaces_of(learner.env, tag, found, folder)


def check_spaces_of(env: EnvWrapper, tag: str, spaces: Mapping[str, Any], folder: Path) -> None:
    """Check that the spaces of one policy equal those of its agents in an environment.

    Args:
        env: Replicas of the environment.
        tag: Policy tag.
        spaces: ``observation`` and ``action`` space in the checkpoint, see ``describe_space``.
        folder: Folder of the checkpoint, for messages.

    Raises:
        CheckpointError: If they differ.
    """
    for kind, expected in (("observation", env.observation_spaces[tag]), ("action", env.action_spaces[tag])):
        found: Any = spaces.get(kind)
        if found != describe_space(expected):
            raise CheckpointError(
                f"{folder}: does not match the current environment: the {kind} space of '{tag}' was "
                f"{shown(space_of(found))}, but that of '{env.env_name}' is {shown(expected)}"
            )


def restore(learner: Learner, run: RunState, checkpoint: Checkpoint) -> None:
    """Restore the state of a checkpoint.

    Args:
        learner: Policies, replicas and counters, overwritten in place.
        run: State of the training loop, overwritten in place.
        checkpoint: The checkpoint.

    Raises:
        ValueError: If a counter is not a number.
    """
    state = checkpoint.state
    counts = {count: state[count] for count in ("updates", "env_steps")}
    if state["best"] is not None:
        counts["best"] = state["best"]["env_steps"]  # names a folder
    for name, count in counts.items():
        if type(count) is not int or count < 0:
            raise ValueError(f"found {name} = {shown(count)}, expected a number")
    learner.updates, learner.env_steps, run.returns = state["updates"], state["env_steps"], state["returns"]
    run.best, run.evaluation_under_way = state["best"], state["evaluation_under_way"]
    for name, total in state.get("episodes", {}).items():  # of all processes: one has them now
        learner.episodes[name].copy_(total * learner.process_group.is_leader)
    restore_models(learner, checkpoint)
    for tag, policy in learner.policies.items():
        policy.load_state_dict(state["policies"][tag])
    for tag, opponent in learner.opponents.items():
        opponent.load_state_dict(state["opponents"][tag])
    for tag, actor in learner.actors.items():
        for name, buffer in actor.kept_between_steps().items():
            buffer.copy_(state["kept_between_steps"][tag][name][learner.share.rows])
    if learner.share.count:
        _check_layout(learner.env, state.get("layout"))
        learner.env.load_state(state["simulation"][learner.share.rows].to(learner.env.device))


def _check_layout(env: EnvWrapper, layout: Mapping[str, str] | None) -> None:
    """Raise ValueError if the arrays of a saved simulation differ from those of ``env``; None: they are unknown."""
    if layout is None:  # of an earlier version
        return
    arrays = [[f"'{name}' {kind}" for name, kind in each.items()] for each in (layout, env.ctx.state_layout)]
    for found, expected in zip_longest(*arrays, fillvalue="no further array"):
        if found != expected:
            raise ValueError(f"found the array {found}, expected {expected}")


def restore_models(learner: Learner, checkpoint: Checkpoint) -> None:
    """Restore the models of a checkpoint, all that policies need to act.

    Args:
        learner: Policies, whose models are overwritten in place.
        checkpoint: The checkpoint.
    """
    for tag, policy in learner.policies.items():
        policy.model.load_state_dict(checkpoint.models[tag])


def acts_by_state(config: Mapping[str, Any]) -> bool:
    """Return True if agents of a checkpoint's configuration act as past versions, which are in the trainer's state."""
    policies = config.get("policy")
    sections = policies.values() if isinstance(policies, Mapping) else ()
    return any(isinstance(section, Mapping) and section.get("algorithm") == "self_play" for section in sections)


def last_state_of(
    run: str | Path, overrides: Sequence[str], environment: Environment | None, trust: bool = False
) -> tuple[RunFolder, tuple[Path, Checkpoint] | None, RunConfig]:
    """Find the last checkpoint of a run and the configuration to resume with.

    Args:
        run: Its folder, or its name; or its last checkpoint.
        overrides: Changes of the configuration, see ``Trainer.resume``.
        environment: The environment; None: created from the run's configuration.
        trust: See ``Trainer.resume``.

    Returns:
        Folder of the run; path and contents of its last undamaged checkpoint, or None; configuration.

    Raises:
        CheckpointError: If there is no such run, it does not fit the environment, or it has continued past ``run``.
        ConfigError: If an override is invalid, or changes a fixed key.
        TrustError: If the run names code that is not known here.
    """
    folder = find_run(run)
    if folder.checkpoints.exists() and not folder.checkpoints.is_dir():
        raise CheckpointError(f"{folder.checkpoints}: found a file, expected the folder of the run's checkpoints")
    found = last_undamaged(folder.checkpoints)
    if found is None and folder.last_checkpoint():  # starting over would overwrite what is left of the run
        raise CheckpointError(
            f"{folder.path}: the checkpoints of the run have been deleted: restore {folder.checkpoints}, or train anew "
            f"with `warpdrive train {folder.config}`"
        )
    if found is None:
        return folder, None, load_config(folder.config, overrides, environment=environment, trust=trust)
    path, checkpoint = found
    if Path(run).parent.name == "checkpoints" and Path(run).name != path.name:
        raise CheckpointError(f"{run}: the run has continued since, to {path}; resume {folder.path}")
    if not trust:
        check_named_code(checkpoint.config, path)
    _check_same_environment(folder, path, checkpoint)
    config = load_config(checkpoint.config, overrides, environment=environment)
    if overrides:  # loaded without them, as earlier versions lack keys
        check_resumable(load_config(checkpoint.config, environment=environment), config)
    return folder, found, config


def _check_same_environment(folder: RunFolder, path: Path, checkpoint: Checkpoint) -> None:
    """Raise ``CheckpointError`` if a checkpoint has another environment than the run that contains it."""
    try:
        of_run = read_yaml(folder.config).get("env")
    except ConfigError:  # fall back to the checkpoint's configuration, written there next
        return
    names = [env.get("name") if isinstance(env, dict) else None for env in (checkpoint.config.get("env"), of_run)]
    if names[0] != names[1]:
        raise CheckpointError(
            f"{path}: is a state of the environment {shown(names[0])}, but the run uses {shown(names[1])}"
        )
