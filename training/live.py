"""``wd.live``: web pages in which environments and policies run."""

from __future__ import annotations

import copy
from collections.abc import Collection
from pathlib import Path

from warpdrive.env_wrapper import EnvWrapper
from warpdrive.errors import WarpDriveError, shown
from warpdrive.training.algorithms.base import LearningConfig
from warpdrive.training.config.validate import check_random
from warpdrive.training.inference.trained_policy import TrainedPolicy
from warpdrive.training.trainer import Trainer
from warpdrive.training.web.page import VERIFIED_STEPS, WebPage, check_output
from warpdrive.training.web.source import Source, check_kernels, learned_by, source_of, with_fitting_pool


def live(
    source: Trainer | EnvWrapper | str | Path,
    output: str | Path | None = None,
    *,
    replicas: int = 1,
    seed: int | None = None,
    random: Collection[str] = (),
    deterministic: bool = False,
    fps: float = 10.0,
    verified_steps: int = VERIFIED_STEPS,
    trust: bool = False,
) -> WebPage:
    """Return a web page in which an environment and its policies run, for people to play. Notebooks display it.

    ```python
    wd.live("runs/tag_gridworld", "tag.html")
    wd.live(wd.EnvWrapper("overcooked"))  # random actions, except of human players
    ```

    See docs/guides/web.md.

    Args:
        source: A Trainer; a run or a checkpoint; or an EnvWrapper or the name of an environment, whose agents act
            uniformly at random.
        output: File to write, ``.html``; None: no file.
        replicas: Initial number of replicas.
        seed: Seed of start states and random numbers; None: that of the source.
        random: Policy tags whose agents act uniformly at random instead.
        deterministic: If True, policies take their most probable action instead of sampling.
        fps: Initial number of steps per second.
        verified_steps: Number of steps that the page can compare with those of the CPU backend.
        trust: If True, code named by a run may be executed even if it is not known here, see
            docs/project/security.md.

    Returns:
        The page.

    Raises:
        WarpDriveError: There is no such run or environment, it cannot run in a page, or an argument is invalid.
    """
    if output is not None:
        check_output(Path(output))
    if isinstance(source, (str, Path)):
        found = source_of(str(source), seed=seed, random=random, trust=trust)
    elif not isinstance(source, (Trainer, EnvWrapper)):
        raise WarpDriveError(
            f"source is {shown(source)}, expected a Trainer, an EnvWrapper, a run, a checkpoint or the name of an "
            "environment"
        )
    else:
        env = source.env if isinstance(source, Trainer) else source
        check_kernels(env)
        check_random(random, env.policy_tags)
        own = env.like(1, env.seed if seed is None else seed, env_backend="cpu")
        policies = _policies(source, random) if isinstance(source, Trainer) else {}
        found = Source(with_fitting_pool(own), policies, env.env.name)
    page = found.page(replicas, fps, deterministic, verified_steps)
    if output is not None:
        page.write(Path(output))
    return page


def _policies(trainer: Trainer, random: Collection[str]) -> dict[str, TrainedPolicy]:
    """Return copies of the policies of a trainer, by the tags for which they act."""
    policies, env = {}, trainer.env
    for tag, model in trainer.acting_models(random).items():
        settings = trainer.config.policy[learned_by(trainer.config, tag) or tag]
        assert isinstance(settings, LearningConfig)
        spaces = env.observation_spaces[tag], env.action_spaces[tag]
        distribution = settings.acting_distribution(spaces[1])
        policies[tag] = TrainedPolicy(tag, copy.deepcopy(model).cpu(), *spaces, distribution)
    return policies
