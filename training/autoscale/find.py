"""Autoscaling of a run configuration to the fastest size on this machine.

Every probe trains with ``Trainer.train``, so that the measurement is that of a run. The best size is trained to its end
before it is written, since evaluation and animation need memory as well.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from warpdrive.errors import ConfigError, TrainingError
from warpdrive.training.autoscale.memory import gib
from warpdrive.training.autoscale.prober import Prober, Survey
from warpdrive.training.autoscale.search import Bounds, Search
from warpdrive.training.autoscale.size import Outcome, Size
from warpdrive.training.config.load import RunConfig, load_config

_MIN_ROLLOUT = 8
"""Minimum rollout length in steps, unless the user's is shorter. Shorter rollouts would affect learning."""


@dataclass(frozen=True)
class Autoscaled:
    """Result of a search.

    Attributes:
        config: Run configuration with the winning size, in total over all devices.
        before: Size of the original configuration.
        devices: Number of devices to train on.
        winner: Outcome of the winning size, on one device.
        outcomes: Outcomes of all sizes, in the order of the search.
        speed: Throughput of all devices together, measured in a trial run of the configuration.
        stopped: True if Ctrl-C ended the search: the best size so far was not tested in a trial run.
        survey: Measurements from before the search.
        memory: Memory limit of a process in bytes, and its origin.
    """

    config: RunConfig
    before: Size
    devices: int
    winner: Outcome
    outcomes: list[Outcome]
    speed: float
    stopped: bool
    survey: Survey
    memory: tuple[float, str]

    @property
    def after(self) -> Size:
        """Size in the new configuration."""
        return _on_all(self.winner.size, self.devices)


def autoscale(
    config: RunConfig,
    *,
    write_to: Path,
    memory: float | None = None,
    time_limit: float = 120.0,
    seconds: float = 2.0,
    min_updates: int = 1,
    devices: int = 1,
    on_survey: Callable[[Survey, tuple[float, str]], None] | None = None,
    on_outcome: Callable[[Mapping[Size, Outcome], Size | None], None] | None = None,
) -> Autoscaled:
    """Find the number of replicas and the rollout length for the highest training throughput that fits in memory.

    Ctrl-C ends the search with the best size so far, if there is one.

    Args:
        config: Run configuration. Only ``trainer.num_envs`` and ``trainer.train_batch_size`` are changed.
        write_to: YAML file for the resulting configuration, written after a successful trial run.
        memory: Memory limit in bytes; None: all available memory.
        time_limit: Timeout of a probe in seconds, including its start.
        seconds: Duration of a measurement in seconds.
        min_updates: Minimum number of updates within ``trainer.total_steps``; larger batches are not tried.
        devices: Number of devices of the training: the search runs on one of them, and each gets the best size there.
        on_survey: Called with the survey and the available memory.
        on_outcome: Called before each probe with all outcomes and the size to try, and after the last probe.

    Returns:
        The result of the search.

    Raises:
        TrainingError: If no size fits: reports why.
        ConfigError: If ``min_updates`` leaves no batch size.
    """
    trainer = config.trainer
    before = Size(trainer.num_envs, trainer.rollout_length)
    bounds = Bounds(trainer.total_steps // min_updates // devices, min(_MIN_ROLLOUT, before.rollout_length))
    if bounds.most_batch < bounds.least_rollout:
        raise ConfigError(
            f"found a minimum of {min_updates} updates, which do not fit into {trainer.total_steps} environment "
            "steps (trainer.total_steps)"
        )
    with closing(Prober(config, seconds, time_limit, memory, devices)) as prober:
        limit = prober.limit()
        if limit[0] <= 0:
            raise TrainingError(f"no memory available for replicas: {limit[1]}")
        if on_survey:
            on_survey(prober.survey, limit)

        def attempt(size: Size) -> Outcome:
            if on_outcome:
                on_outcome(search.outcomes, size)
            return prober(size)

        search = Search(attempt, bounds, prober.survey.at_once)
        winner, speed, stopped = None, 0.0, False
        try:
            winner = search.run(before._replace(num_envs=max(before.num_envs // devices, prober.survey.at_once)))
            while winner is not None:
                if on_outcome:
                    on_outcome(search.outcomes, winner.size)
                with _written(_with_size(config, _on_all(winner.size, devices))) as file:
                    tried = prober.train(file, winner.size, winner.grows)
                if tried.fits:
                    speed = tried.speed
                    break
                search.outcomes[winner.size] = tried
                winner = search.smaller(winner)
        except KeyboardInterrupt:
            if not any(outcome.fits for outcome in search.outcomes.values()):
                raise
            winner, stopped = winner or search.best(), True
    if on_outcome:
        on_outcome(search.outcomes, None)
    outcomes = list(search.outcomes.values())
    if winner is None:
        smallest = min(outcomes, key=lambda outcome: outcome.size.batch)
        raise TrainingError(
            f"no size fits, not even {smallest.size}: {smallest.reason} "
            f"({len(outcomes)} sizes tried; memory limit {gib(limit[0])}: {limit[1]})"
        )
    found = _with_size(config, _on_all(winner.size, devices))
    found.save(write_to)
    return Autoscaled(found, before, devices, winner, outcomes, speed, stopped, prober.survey, limit)


@contextmanager
def _written(config: RunConfig) -> Iterator[Path]:
    """Write the configuration to a temporary file that exists within the block."""
    with tempfile.TemporaryDirectory(prefix="warpdrive-") as folder:
        config.save(Path(folder, "run.yaml"))
        yield Path(folder, "run.yaml")


def _on_all(size: Size, devices: int) -> Size:
    return size._replace(num_envs=size.num_envs * devices)


def _with_size(config: RunConfig, size: Size) -> RunConfig:
    raw = config.model_dump(mode="json")
    raw["trainer"] |= {"num_envs": size.num_envs, "train_batch_size": size.batch}
    return load_config(raw)
