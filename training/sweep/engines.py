"""What decides which values are tried next: a grid, chance, or Optuna."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from warpdrive.errors import WarpDriveError
from warpdrive.training.sweep.space import Choices, Range, Space, Values, drawn, grid

ENGINES = ("grid", "random", "optuna")


class Engine(Protocol):
    """Chooses values for trials, which are numbered from 0 in the order in which they begin."""

    trials: int
    """How many there are in all."""

    def values(self, number: int) -> Values:
        """What a trial is to try. Asked once for each trial."""

    def should_stop(self, number: int, env_steps: int, score: float) -> bool:
        """Whether a trial that has reached ``score`` after ``env_steps`` is not worth going on with."""

    def ended(self, number: int, values: Values, score: float | None) -> None:
        """A trial has reached ``score`` in the end; None: it has failed, or was stopped."""


class Listed:
    """Tries what is known beforehand.

    Args:
        all_values: of each trial.
    """

    def __init__(self, all_values: Sequence[Values]) -> None:
        self.all_values, self.trials = all_values, len(all_values)

    def values(self, number: int) -> Values:
        """See ``Engine``."""
        return self.all_values[number]

    def should_stop(self, number: int, env_steps: int, score: float) -> bool:
        """Never."""
        return False

    def ended(self, number: int, values: Values, score: float | None) -> None:
        """Nothing follows from it."""


class Optuna:
    """Lets Optuna choose (its TPE sampler), and stop trials that are worse than the median of those before.

    Args:
        space: what is varied.
        trials: how many.
        seed: of the sampler.
        minimise: whether low scores are good.

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

    def ended(self, number: int, values: Values, score: float | None) -> None:
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
    """The engine of a name; None: a grid where there are lists only and no number of trials, else chance.

    Raises:
        WarpDriveError: the engine does not go with the space, or is not installed.
    """
    ranges = [key for key, part in space.items() if isinstance(part, Range)]
    name = name or ("random" if ranges or trials else "grid")
    if name == "grid":
        if ranges:
            raise WarpDriveError(f"--engine grid: {ranges[0]} is a range; a grid has lists only: {ranges[0]}=[...]")
        if trials:
            raise WarpDriveError("--trials: a grid has as many trials as there are combinations; use --engine random")
        return Listed(grid(space))
    trials = trials or 16
    if name == "random":
        return Listed([drawn(space, seed, number) for number in range(trials)])
    return Optuna(space, trials, seed, minimise)
