"""Search for the fastest size that fits, independent of processes and devices: a function tries a size."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median

from warpdrive.training.autoscale.size import Outcome, Size

_GAIN = 0.02
"""Relative gain in throughput below which a size is not faster, because of noise."""
_MISSES = 2
"""Number of consecutive doublings without gain that end a climb."""
_CLOSE = 0.03
"""Relative difference in throughput within which the smallest batch wins: it needs fewer steps per update."""
_NEAR = 0.10
"""Relative difference from the best within which the smallest size is measured again."""
_MAX_PASSES = 4
"""Maximum number of passes over replicas, rollout length, and their trade-off."""
_MIN_GAIN = 0.05
"""Relative gain of a pass below which it is the last one."""
_FINALISTS = 3
_ROUNDS = 3
_FINEST = 1.2
"""Ratio of the smallest failing to the largest fitting size at which bisection ends."""

Change = Callable[[Size, float], Size]


@dataclass(frozen=True)
class Bounds:
    """Bounds of the sizes to try.

    Attributes:
        most_batch: Maximum of environment steps per update.
        least_rollout: Minimum rollout length.
    """

    most_batch: int
    least_rollout: int = 1

    def contain(self, size: Size) -> bool:
        """Return True if ``size`` is within the bounds."""
        return size.num_envs >= 1 and size.rollout_length >= self.least_rollout and size.batch <= self.most_batch


class Search:
    """Search for the size with the highest throughput, preferring the smallest among nearly equal ones.

    Doubling finds the neighbourhood of the best number of replicas, or the memory limit; bisection refines it. The
    rollout length is searched in the same way, then the trade-off of both: if memory is limiting, more replicas require
    shorter rollouts. Finally the best sizes are measured again in turns.

    Args:
        attempt: Tries a size and returns its outcome, never raises.
        bounds: Bounds of the sizes to try.
        wave: Number of replicas that the device runs in parallel.

    Attributes:
        outcomes: Outcome by size; the throughputs of the finalists are medians.
    """

    def __init__(self, attempt: Callable[[Size], Outcome], bounds: Bounds, wave: int = 1) -> None:
        self.attempt, self.bounds, self.wave = attempt, bounds, wave
        self.outcomes: dict[Size, Outcome] = {}
        self._tried: dict[Size, list[Outcome]] = {}

    def run(self, start: Size) -> Outcome | None:
        """Search from ``start``. Returns the winner, or None if not even the smallest size fits."""
        if self._first_that_fits(start) is None:
            return None
        for _ in range(_MAX_PASSES):
            before = self.best().speed
            replicas, steps = (self._with_replicas,) * 2, (_with_steps,) * 2
            for change, limited in (replicas, steps, (self._with_shorter_rollouts, self._halved)):
                self._climb(change)
                self._bisect(limited)
            if self.best().speed <= before * (1 + _MIN_GAIN):
                break
        return self._choose_winner()

    def smaller(self, than: Outcome) -> Outcome | None:
        """Return the fastest fitting outcome with at most half the batch, in case a larger one turns out not to fit."""
        smaller = [outcome for outcome in self._fitting() if outcome.size.batch <= than.size.batch / 2]
        if smaller:
            return max(smaller, key=lambda outcome: outcome.speed)
        size = self._with_replicas(than.size, 0.5)
        found = self._try(size) if self.bounds.contain(size) and size != than.size else None
        return found if found is not None and found.fits else None

    def _first_that_fits(self, start: Size) -> Outcome | None:
        size = start
        while not self.bounds.contain(size) and size.num_envs > 1:
            size = self._with_replicas(size, 0.5)
        while True:
            outcome = self._try(size)
            if outcome.fits:
                return outcome
            if size.num_envs > 1:
                size = self._with_replicas(size, 0.5)
            elif size.rollout_length > self.bounds.least_rollout:
                size = size._replace(rollout_length=max(self.bounds.least_rollout, size.rollout_length // 2))
            else:
                return None

    def _climb(self, change: Change) -> None:
        """Double while that is faster; then, or if it never was, halve in the same way."""
        for factor in (2.0, 0.5):
            start = self.best()
            size, misses, fastest = start.size, 0, start.speed
            while misses < _MISSES:
                following = change(size, factor)
                if following == size or not self.bounds.contain(following):
                    break
                size, outcome = following, self._try(following)
                if not outcome.fits:
                    break
                misses = 0 if outcome.speed > fastest * (1 + _GAIN) else misses + 1
                fastest = max(fastest, outcome.speed)
            if self.best() is not start and factor > 1:
                return

    def _bisect(self, change: Change) -> None:
        """Bisect towards the largest fitting size, or between the best and its neighbours."""
        best = self.best()
        larger = change(best.size, 2.0)
        if larger in self.outcomes and not self.outcomes[larger].fits:
            fits, fails = 1.0, 2.0
            while fails / fits > _FINEST:
                middle = math.sqrt(fits * fails)
                size = change(best.size, middle)
                if size in self.outcomes or not self.bounds.contain(size):
                    break
                fits, fails = (middle, fails) if self._try(size).fits else (fits, middle)
            return
        for factor in (1.5, 0.75):
            size = change(best.size, factor)
            if change != self._halved and self.bounds.contain(size):
                self._try(size)

    def _choose_winner(self) -> Outcome:
        """Measure the fastest sizes in turns, so that all are subject to the same noise, and choose the winner."""
        finalists = self._finalists()
        if len(finalists) == 1:
            return self.outcomes[finalists[0]]
        shares: dict[Size, list[float]] = {size: [] for size in finalists}
        for _ in range(_ROUNDS):
            tried = {size: self._try(size, again=True) for size in finalists}
            finalists.reverse()  # a machine that becomes slower is fair to all
            total = sum(outcome.speed for outcome in tried.values()) or 1.0
            for size, outcome in tried.items():
                shares[size].append(outcome.speed / total)
        scores = {size: median(found) for size, found in shares.items() if self._agree_on(size).fits}
        if not scores:  # none of these sizes fits reliably
            return self._choose_winner() if self._fitting() else self.outcomes[finalists[0]]
        close = [size for size, score in scores.items() if score >= max(scores.values()) * (1 - _CLOSE)]
        return self.outcomes[min(close, key=lambda size: size.batch)]

    def _finalists(self) -> list[Size]:
        """Return the fastest size, the smallest of those nearly as fast, and the next fastest ones."""
        fastest = sorted(self._fitting(), key=lambda outcome: -outcome.speed)
        near = [outcome for outcome in fastest if outcome.speed >= fastest[0].speed * (1 - _NEAR)]
        smallest = min(near, key=lambda outcome: outcome.size.batch)
        return list(dict.fromkeys(outcome.size for outcome in (fastest[0], smallest, *fastest)))[:_FINALISTS]

    def _agree_on(self, size: Size) -> Outcome:
        """Merge the outcomes of the final rounds; a size fits only if it did in all of them."""
        tried = self._tried[size][-_ROUNDS:]
        failed = [outcome for outcome in tried if not outcome.fits]
        self.outcomes[size] = (
            failed[0] if failed else replace(tried[-1], speed=median(outcome.speed for outcome in tried))
        )
        return self.outcomes[size]

    def _with_replicas(self, size: Size, factor: float) -> Size:
        """Scale the replicas, rounded to full waves of the device: a partial last wave takes as long as a full one."""
        wanted = size.num_envs * factor
        return size._replace(num_envs=_round(wanted / self.wave) * self.wave if wanted > self.wave else _round(wanted))

    def _with_shorter_rollouts(self, size: Size, factor: float) -> Size:
        """Return a size with more replicas, and rollouts shorter by the same factor."""
        traded = _with_steps(self._with_replicas(size, factor), 1 / factor)
        same = size.num_envs == traded.num_envs or size.rollout_length == traded.rollout_length
        return size if same else traded

    def _halved(self, size: Size, factor: float) -> Size:
        """Return a size with half the rollout length, and ``factor`` times the replicas."""
        return self._with_replicas(_with_steps(size, 0.5), factor)

    def best(self) -> Outcome:
        """Return the fastest fitting outcome."""
        return max(self._fitting(), key=lambda outcome: outcome.speed)

    def _fitting(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes.values() if outcome.fits]

    def _try(self, size: Size, again: bool = False) -> Outcome:
        if size not in self.outcomes or again:
            self.outcomes[size] = self.attempt(size)
            self._tried.setdefault(size, []).append(self.outcomes[size])
        return self.outcomes[size]


def _with_steps(size: Size, factor: float) -> Size:
    return size._replace(rollout_length=_round(size.rollout_length * factor))


def _round(number: float) -> int:
    """Round to three significant binary digits: 10, 12, 14, 16, 20, 24, 28, 32, ...; at least 1."""
    step = 1 << max(0, math.floor(math.log2(max(number, 1))) - 2)
    return max(1, step * round(number / step))
