"""Policies initialised from another run."""

from __future__ import annotations

from warpdrive.errors import CheckpointError, ConfigError
from warpdrive.training.algorithms.base import LearningConfig
from warpdrive.training.config.schema import RunConfig
from warpdrive.training.inference.trained_policy import SeparatePolicies, load_policy
from warpdrive.training.models.base import Actor


def initialize_from_run(model: Actor, config: LearningConfig, tag: str) -> None:
    """Initialise ``model``, on the CPU, from the policy that ``config.load`` names, if any.

    Args:
        model: Newly built model of a policy.
        config: Section of the policy in the run configuration.
        tag: Policy tag.

    Raises:
        ConfigError: If there is no such policy, or its model is incompatible.
    """
    if config.load is None:
        return
    wanted = config.load_tag or tag
    try:
        found = load_policy(config.load, wanted)
    except CheckpointError as error:
        raise ConfigError(f"policy.{tag}.load: {error}") from error
    if isinstance(found, SeparatePolicies):
        text = f"'{wanted}' in {config.load} has a policy for each agent, expected the tag of one"
        raise ConfigError(f"policy.{tag}.load: {text}")
    if found.model.action_units != model.action_units:
        raise ConfigError(
            f"policy.{tag}.load: '{wanted}' in {config.load} maps the outputs of its model to actions differently; "
            f"policy.{tag}.model needs the same normalize_actions and squash_actions as config.yaml of that run "
            "(normalize_actions: false if it has none)"
        )
    try:
        model.load_state_dict(found.model.state_dict())
    except RuntimeError as error:
        raise ConfigError(
            f"policy.{tag}.load: the model of '{wanted}' in {config.load} does not match: policy.{tag} needs the "
            "spaces, algorithm and model in config.yaml of that run"
        ) from error


def without_loading(config: RunConfig) -> RunConfig:
    """Return the run configuration without ``load``, for policies that are restored from a checkpoint."""
    nothing = {"load": None, "load_tag": None}
    policies = {
        tag: settings.model_copy(update=nothing) if isinstance(settings, LearningConfig) else settings
        for tag, settings in config.policy.items()
    }
    return config.model_copy(update={"policy": policies})
