"""Contents of a page: the environment of a run or of a run configuration, and trained policies."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from warpdrive import registry
from warpdrive.env_wrapper import EnvWrapper
from warpdrive.errors import CheckpointError, ConfigError, ExportError, shown
from warpdrive.training.algorithms.base import LearningConfig
from warpdrive.training.checkpoint.checkpoint import Which, find_checkpoint, read_models
from warpdrive.training.checkpoint.resume import check_spaces_of
from warpdrive.training.checkpoint.space_description import describe_space
from warpdrive.training.config.adapt import adapted_replicas
from warpdrive.training.config.load import RunConfig, config_of_checkpoint, is_environment, load_config, shipped_configs
from warpdrive.training.config.named_code import check_named_code
from warpdrive.training.config.schema import SelfPlayConfig
from warpdrive.training.config.validate import check_random
from warpdrive.training.inference.trained_policy import TrainedPolicy, load_policy
from warpdrive.training.web.page import PageOptions, WebPage, web_page

_POOL_BYTES = 60_000
"""Bytes of start states that a page may hold."""


@dataclass(frozen=True)
class Source:
    """Contents of a page.

    Attributes:
        env: Replicas of the environment on the CPU.
        policies: Policies by tag.
        name: Name of the run or of the environment.
        folder: Folder of the run, or None.
    """

    env: EnvWrapper
    policies: dict[str, TrainedPolicy]
    name: str
    folder: Path | None = None

    def page(self, replicas: int, fps: float, deterministic: bool, verified_steps: int) -> WebPage:
        """Return the page; see :class:`~warpdrive.training.web.page.PageOptions` for the arguments."""
        about = "" if self.policies else "All agents act at random, but for those that you play."
        options = PageOptions(self.name, about, replicas, fps, deterministic, verified_steps)
        return web_page(self.env, self.policies, options)


def source_of(
    source: str,
    overrides: Sequence[str] = (),
    *,
    which: Which = "latest",
    seed: int | None = None,
    random: Collection[str] = (),
    trust: bool = False,
) -> Source:
    """Return the contents of a page of a run, or of an environment without policies.

    Args:
        source: A run, a checkpoint, or a run configuration: its file, or the name of an environment.
        overrides: Values of keys of a run configuration, see ``load_config``.
        which: Checkpoint of a run: ``"latest"`` or ``"best"``.
        seed: Seed of start states and random numbers; None for that of the run.
        random: Policy tags whose agents act uniformly at random instead.
        trust: If True, code named by a run may be executed even if it is not known here.

    Returns:
        The contents.

    Raises:
        WarpDriveError: If there is no such run or environment, or it cannot be a page.
    """
    folder = _checkpoint_of(source, which, bool(overrides))
    if folder is None:
        config, policies = load_config(source, overrides, trust=trust or None), {}
    elif overrides:
        raise ConfigError(f"found {overrides[0]} for the run {source}: keys can be set for an environment only")
    else:
        config = config_of_checkpoint(read_models(folder).config, folder)
        policies = _policies(config, folder, trust)
    check_random(random, config.policy)
    for tag in random:
        policies.pop(tag, None)
    env = _replicas(config, config.trainer.seed if seed is None else seed, folder, trust)
    if folder is not None:
        _check_fit(policies, env, folder)
    is_in_a_run = folder is not None and folder.parent.name == "checkpoints"
    run = folder.parent.parent if folder is not None and is_in_a_run else None
    return Source(env, policies, config.name if folder else env.env_name, run)


def _checkpoint_of(source: str, which: Which, has_overrides: bool) -> Path | None:
    """Return the checkpoint of a run; None for a run configuration or an environment.

    A name may be both: it is that of a run, unless keys are set, which a run does not allow.
    """
    is_known = (
        Path(source).suffix in (".yaml", ".yml")
        or source in shipped_configs()
        or source in registry.registered_names()
        or is_environment(source)
    )
    if Path(source).is_file() or (is_known and has_overrides):
        return None
    try:
        return find_checkpoint(source, which)
    except CheckpointError:
        if not is_known or which == "best":
            raise
        return None


def _policies(config: RunConfig, folder: Path, trust: bool) -> dict[str, TrainedPolicy]:
    found = {}
    for tag in config.policy:
        if (learned := learned_by(config, tag)) is not None:
            found[tag] = load_policy(folder, learned, trust=trust)
    return found


def _check_fit(policies: Mapping[str, TrainedPolicy], env: EnvWrapper, folder: Path) -> None:
    """Check that policies fit an environment, which may have changed since they were trained.

    Args:
        policies: Policies by tag.
        env: Replicas of the environment.
        folder: Folder of the checkpoint, for messages.

    Raises:
        CheckpointError: If the environment has no such policy tag, or other spaces.
    """
    for tag, policy in policies.items():
        if tag not in env.policy_tags:
            raise CheckpointError(
                f"{folder}: does not match the current environment: it has a policy of {shown(tag)}, but the policy "
                f"tags of '{env.env_name}' are {', '.join(env.policy_tags)}"
            )
        spaces = {"observation": policy.observation_space, "action": policy.action_space}
        check_spaces_of(env, tag, {kind: describe_space(space) for kind, space in spaces.items()}, folder)


def learned_by(config: RunConfig, tag: str) -> str | None:
    """Return the policy tag whose trained policy acts for the agents of a tag; None if there is none."""
    settings = config.policy[tag]
    learned = settings.of if isinstance(settings, SelfPlayConfig) else tag
    return learned if isinstance(config.policy.get(learned), LearningConfig) else None


def _replicas(config: RunConfig, seed: int, folder: Path | None, trust: bool) -> EnvWrapper:
    if config.env is None:
        raise ConfigError(f"run '{config.name}': its environment has no registered name, which a page needs")
    if not trust and folder is not None:
        check_named_code({"env": {**config.env.parameters, "name": config.env.name}}, folder)
    env = EnvWrapper(
        config.env.name,
        env_config=config.env.parameters,
        env_backend="cpu",
        seed=seed,
        reset_pool_size=config.trainer.reset_pool_size,
    )
    check_kernels(env)
    return adapted_replicas(with_fitting_pool(env), config.policy)


def check_kernels(env: EnvWrapper) -> None:
    """Raise ``ExportError`` if an environment has no kernels, which a page needs."""
    if env.env.steps_on_host:
        raise ExportError(f"environment {env.env_name} is of another library, and has no kernels")


def with_fitting_pool(env: EnvWrapper) -> EnvWrapper:
    """Return replicas with as many of the start states as fit a page, the same ones if all do."""
    pool = [env.ctx[name] for name in env.ctx if name.startswith("pool.")]
    of_a_state = max(1, sum(array[:1].nbytes for array in pool))
    fitting = max(1, min(env.reset_pool_size, _POOL_BYTES // of_a_state))
    return env if fitting == env.reset_pool_size else env.like(1, env.seed, reset_pool_size=fitting)
