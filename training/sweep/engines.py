"""Search engines of sweeps: grid, random, or Optuna."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from warpdrive.errors import WarpDriveError
from warpdrive.training.sweep.space import Choices, Range, Space, Values, drawn, grid

ENGINES = ("grid", "random", "optuna")


class Engine(Protocol):
    """Chooses values for trials, which are numbered from 0 in the order in which they begin."""

    trials: int
    """Total number of trials."""

    def values(self, number: int) -> Values:
        """Return the values of a trial. Called once for each trial."""

    def should_stop(self, number: int, env_steps: int, score: float) -> bool:
        """Return True if a trial with ``score`` after ``env_steps`` should be pruned.

        Args:
            number: Number of the trial.
            env_steps: Environment steps so far.
            score: Current score.

        Returns:
            True if the trial should be pruned.
        """

    def record_result(self, number: int, values: Values, score: float | None) -> None:
        """Record the final ``score`` of a trial; None: it has failed, or was stopped.

        Args:
            number: Number of the trial.
            values: Values of the trial.
            score: Final score, or None.
        """


class FixedTrials:
    """Engine with a fixed list of trials.

    Args:
        all_values: Values of each trial.
    """

    def __init__(self, all_values: Sequence[Values]) -> None:
        self.all_values, self.trials = all_values, len(all_values)

    def values(self, number: int) -> Values:
        """See ``Engine``."""
        return self.all_values[number]

    def should_stop(self, number: int, env_steps: int, score: float) -> bool:
        """Return False: trials are never pruned."""
        return False

    def record_result(self, number: int, values: Values, score: float | None) -> None:
        """Do nothing."""


class Optuna:
    """Engine of Optuna: its TPE sampler, with pruning of trials worse than the median of earlier ones.

    Args:
        space: Search space.
        trials: Number of trials.
        seed: Seed of the sampler.
        minimise: If True, low scores are better.

    Raises:
        WarpDriveError: Optuna is not installed.
    """

    def __init__(self, space: Space, trials: int, seed: int, minimise: bool) -> None:
        try:
            import optuna
        except ImportError as error:
            raise WarpDriveError(
                "--engine optuna needs Optuna, which is not installed: pip install 'warpdrive[optuna]'"
            ) from error
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._optuna, self._space, self.trials = optuna, space, trials
        self._study = optuna.create_study(
            direction="minimize" if minimise else "maximize",
            sampler=optuna.samplers.TPESampler(seed=seed, constant_liar=True),  # trials run side by side
            pruner=optuna.pruners.MedianPruner(n_startup_trials=4),
        )
        self._asked: dict[int, Any] = {}

    def values(self, number: int) -> Values:
        """See ``Engine``."""
        trial = self._asked[number] = self._study.ask(self._distributions())
        return {key: self._value(key, chosen) for key, chosen in trial.params.items()}

    def should_stop(self, number: int, env_steps: int, score: float) -> bool:
        """See ``Engine``."""
        trial = self._asked.get(number)
        if trial is None:  # begun by an earlier process
            return False
        trial.report(score, env_steps)
        return bool(trial.should_prune())

    def record_result(self, number: int, values: Values, score: float | None) -> None:
        """See ``Engine``."""
        states = self._optuna.trial.TrialState
        if number in self._asked:
            state = states.FAIL if score is None else states.COMPLETE
            self._study.tell(self._asked.pop(number), score, state=state)
        elif score is not None:  # of a sweep that is resumed
            params = {key: self._stored(key, value) for key, value in values.items()}
            known = self._optuna.create_trial(params=params, distributions=self._distributions(), value=score)
            self._study.add_trial(known)

    def _distributions(self) -> dict[str, Any]:
        distributions = self._optuna.distributions
        found: dict[str, Any] = {}
        for key, part in self._space.items():
            if isinstance(part, Choices):  # by number, as Optuna takes no lists for values
                found[key] = distributions.CategoricalDistribution(range(len(part.values)))
            elif part.kind == "integer":
                found[key] = distributions.IntDistribution(int(part.low), int(part.high))
            else:
                found[key] = distributions.FloatDistribution(part.low, part.high, log=part.kind == "loguniform")
        return found

    def _value(self, key: str, chosen: Any) -> Any:
        part = self._space[key]
        return part.values[chosen] if isinstance(part, Choices) else chosen

    def _stored(self, key: str, value: Any) -> Any:
        part = self._space[key]
        return part.values.index(value) if isinstance(part, Choices) else value


def make_engine(name: str | None, space: Space, trials: int | None, seed: int, minimise: bool) -> Engine:
    """Create an engine by name; None: grid search for lists only and no number of trials, else random search.

    Args:
        name: Name of the engine, or None.
        space: Search space.
        trials: Number of trials, or None.
        seed: Seed of the samples.
        minimise: If True, low scores are better.

    Returns:
        The engine.

    Raises:
        WarpDriveError: If the engine does not support the space, or is not installed.
    """
    ranges = [key for key, part in space.items() if isinstance(part, Range)]
    name = name or ("random" if ranges or trials else "grid")
    if name == "grid":
        if ranges:
            raise WarpDriveError(
                f"--engine grid: {ranges[0]} is a range, but a grid takes only lists: {ranges[0]}=[...]"
            )
        if trials:
            raise WarpDriveError("--trials: a grid has as many trials as there are combinations; use --engine random")
        return FixedTrials(grid(space))
    trials = trials or 16
    if name == "random":
        return FixedTrials([drawn(space, seed, number) for number in range(trials)])
    return Optuna(space, trials, seed, minimise)
