"""Search for a size on simulated machines, compared with an exhaustive one."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from warpdrive.training.autoscale.search import Bounds, Search
from warpdrive.training.autoscale.size import Outcome, Size

START = Size(64, 32)


class Machine:
    """Trains with a launch per step, a gradient step per quarter of the batch, and slower ones outside of the cache."""

    def __init__(self, memory: float = math.inf, cache: float = math.inf, slow: float = 1.1) -> None:
        self.memory, self.cache, self.slow, self.tried = memory, cache, slow, []

    def speed(self, size: Size) -> float:
        work = size.batch * (1e-6 if size.batch <= self.cache else self.slow * 1e-6)
        return size.batch / (size.rollout_length * 2e-4 + size.num_envs * 1e-8 + 4 * 1e-3 + work)

    def fits(self, size: Size) -> bool:
        return size.num_envs * (100 + size.rollout_length * 30) <= self.memory

    def __call__(self, size: Size) -> Outcome:
        self.tried.append(size)
        if not self.fits(size):
            return Outcome(size, failure="memory", reason="made up")
        return Outcome(size, speed=self.speed(size), memory=size.batch)

    def best(self, most_batch: int = 1 << 22) -> float:
        """Return the best power of two, by brute force."""
        sizes = [Size(2**e, 2**s) for e in range(23) for s in range(3, 12) if 2 ** (e + s) <= most_batch]
        return max(self.speed(size) for size in sizes if self.fits(size))


def search(attempt: Callable[[Size], Outcome], start: Size = START, most_batch: int = 1 << 22) -> Outcome | None:
    return Search(attempt, Bounds(most_batch, least_rollout=8)).run(start)


@pytest.mark.parametrize("memory", [1e4, 3e5, 5e6, 7.7e7, math.inf])
@pytest.mark.parametrize("cache", [1e4, 1e5, math.inf])
@pytest.mark.parametrize("start", [START, Size(1, 100), Size(5000, 20)])
def test_is_near_the_best_found_by_brute_force(memory, cache, start):
    machine = Machine(memory, cache)
    winner = search(machine, start)
    assert winner is not None and machine.fits(winner.size)
    assert winner.speed >= 0.9 * machine.best()
    assert len(machine.tried) < 60


def test_the_largest_that_fits_is_not_the_fastest():
    machine = Machine(cache=20_000, slow=2.0)
    winner = search(machine)
    assert winner.size.batch <= 20_000 < max(size.batch for size in machine.tried)


def test_a_first_size_that_does_not_fit_is_no_end():
    machine = Machine(memory=1e4)
    assert not machine.fits(START)
    winner = search(machine)
    assert winner is not None and machine.fits(winner.size)


def test_nothing_fits():
    machine = Machine(memory=0)
    assert search(machine) is None
    assert Size(1, 8) in machine.tried, "the smallest was not tried"


def test_of_sizes_that_are_as_fast_the_smallest_batch_wins():
    def attempt(size: Size) -> Outcome:
        return Outcome(size, speed=1000.0 * min(1.0, size.batch / 8192))

    assert search(attempt).size.batch == 8192


def test_finalists_are_measured_in_turns_and_drift_does_not_decide():
    """The machine becomes slower with every probe: first come is not first served."""
    machine, calls = Machine(memory=5e6), []

    def attempt(size: Size) -> Outcome:
        calls.append(size)
        found = machine(size)
        return found if not found.fits else Outcome(size, speed=found.speed * 0.97 ** len(calls))

    winner = search(attempt)
    last = calls[-9:]
    assert len(set(last)) == 3 and last[:3] == last[5:2:-1] == last[6:]
    assert machine.speed(winner.size) >= 0.97 * max(map(machine.speed, set(last)))


def test_what_fits_only_sometimes_does_not_win():
    machine, calls = Machine(memory=3e5), []

    def attempt(size: Size) -> Outcome:
        calls.append(size)
        if size.num_envs >= 256 and calls.count(size) > 1:
            return Outcome(size, failure="crash", reason="made up")
        return machine(size)

    winner = search(attempt)
    assert winner.fits and winner.size.num_envs < 256


def test_a_device_that_runs_many_at_once_is_filled_first_and_in_whole_rounds():
    machine = Machine()
    winner = Search(machine, Bounds(1 << 30, least_rollout=8), wave=50_688).run(Size(50_688, 32))
    assert all(size.num_envs % 50_688 == 0 for size in machine.tried if size.num_envs > 50_688)
    assert any(size.num_envs > 2 * 50_688 for size in machine.tried)
    assert winner.speed >= 0.9 * machine.best(most_batch=1 << 30)


def test_bounds_hold():
    machine = Machine()
    winner = search(machine, most_batch=5000)
    assert all(size.batch <= 5000 and size.rollout_length >= 8 for size in machine.tried)
    assert winner.speed >= 0.9 * machine.best(most_batch=5000)


def test_a_smaller_size_where_the_winner_turns_out_not_to_fit():
    machine = Machine()
    searched = Search(machine, Bounds(1 << 20, 8))
    winner = searched.run(START)
    smaller = searched.smaller(winner)
    assert smaller.fits and smaller.size.batch <= winner.size.batch / 2
