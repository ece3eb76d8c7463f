"""From a run configuration to one of the size that trains fastest here."""

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
from warpdrive.training.config import RunConfig, load_config, save_config

_LEAST_ROLLOUT = 8
"""Steps: shorter rollouts than this, or than the user's, are not tried. What they would teach is another matter."""


@dataclass(frozen=True)
class Autoscaled:
    """What a search found.

    Attributes:
        config: the run configuration with the size that won, for all devices together.
        before: the size that the configuration had.
        devices: how many there are to be.
        winner: what came of the size that won, on one device.
        outcomes: of all sizes that were looked at, in the order of the search.
        speed: of all devices together, as measured while the configuration was tried.
        stopped: whether Ctrl-C ended the search: what was best by then has not been trained with to the end.
        survey: what was known before.
        memory: bytes that a process could take, and who says so.
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
        """The size that the configuration has now."""
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
    """Find the number of replicas and the rollout length for the highest training throughput that fits.

    Args:
        config: what is to be trained. Nothing but ``trainer.num_envs`` and ``trainer.train_batch_size`` is changed.
        write_to: the YAML file for the configuration found, which has been trained with by then.
        memory: bytes that training may take; None: as much as there is.
        time_limit: seconds for a probe, its start included.
        seconds: for how long a probe measures.
        min_updates: larger batches than leave so many updates in ``trainer.total_steps`` are not tried.
        devices: that are to train together: the search is on one of them, and each gets what was best there.
        on_survey: called with what is known beforehand, and the memory that there is.
        on_outcome: called before each probe with all that is known and the size that is tried now, and after the last.

    Ctrl-C ends the search with what is best so far, if anything is.

    Raises:
        TrainingError: nothing fits: why not.
        ConfigError: ``min_updates`` leaves no batch at all.
    """
    trainer = config.trainer
    before = Size(trainer.num_envs, trainer.rollout_length)
    bounds = Bounds(trainer.total_steps // min_updates // devices, min(_LEAST_ROLLOUT, before.rollout_length))
    if bounds.most_batch < bounds.least_rollout:
        raise ConfigError(
            f"found {min_updates} as the least number of updates, which {trainer.total_steps} environment steps "
            f"(trainer.total_steps) do not have room for"
        )
    with closing(Prober(config, seconds, time_limit, memory, devices)) as prober:
        limit = prober.limit()
        if limit[0] <= 0:
            raise TrainingError(f"there is no memory for any replicas: {limit[1]}")
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
            f"nothing fits, not even {smallest.size}: {smallest.reason} "
            f"({len(outcomes)} sizes were looked at; there are {gib(limit[0])} of memory: {limit[1]})"
        )
    found = _with_size(config, _on_all(winner.size, devices))
    save_config(found, write_to)
    return Autoscaled(found, before, devices, winner, outcomes, speed, stopped, prober.survey, limit)


@contextmanager
def _written(config: RunConfig) -> Iterator[Path]:
    """Within the block the configuration is in a file."""
    with tempfile.TemporaryDirectory(prefix="warpdrive-") as folder:
        save_config(config, Path(folder, "run.yaml"))
        yield Path(folder, "run.yaml")


def _on_all(size: Size, devices: int) -> Size:
    return size._replace(num_envs=size.num_envs * devices)


def _with_size(config: RunConfig, size: Size) -> RunConfig:
    raw = config.model_dump(mode="json")
    raw["trainer"] |= {"num_envs": size.num_envs, "train_batch_size": size.batch}
    return load_config(raw)
