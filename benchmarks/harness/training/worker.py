"""Script that measures one contestant of ``training.py`` in a separate process and prints a line of JSON."""

from __future__ import annotations

import time

_BEGAN = time.time()

import argparse  # noqa: E402 (the imports below are part of the startup time)
import json  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable  # noqa: E402
from functools import partial  # noqa: E402
from pathlib import Path  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # benchmarks/, for a script that is started by its path

from harness.training.settings import Contestant, Settings, mean_return  # noqa: E402

TARGET = 475.0


def maker(name: str) -> Callable[[Settings, int], Contestant]:
    """Return a function that starts a training run. Raises ``ImportError`` if the library is missing."""
    if name == "warpdrive":
        from harness.training.ppo_warpdrive import WarpDrive

        return WarpDrive
    if name == "sb3":
        from harness.training.ppo_sb3 import StableBaselines3

        return StableBaselines3
    if name == "jax":
        from harness.training.ppo_jax import Jax

        return Jax
    from harness.training.ppo_single_file import SingleFile

    return partial(SingleFile, arrays=name == "arrays")


def seconds_to_target(
    make: Callable[[Settings, int], Contestant], settings: Settings, seed: int, every: int, limit: float
) -> tuple[float | None, int, list[tuple[int, float, float]]]:
    """Train until the mean return over 100 episodes reaches the target.

    Args:
        make: Starts a training run.
        settings: The hyperparameters.
        seed: The seed.
        every: The number of environment steps between evaluations, which are excluded from the time.
        limit: The maximum seconds of training.

    Returns:
        The seconds of training (None if the limit was reached), the environment steps, and the curve: steps, seconds,
        mean return.
    """
    updates = max(1, every // settings.batch_size)
    curve = []
    start = time.perf_counter()
    learner = make(settings, seed)
    seconds, steps = time.perf_counter() - start, 0
    while seconds < limit:
        start = time.perf_counter()
        learner.advance(updates)
        seconds += time.perf_counter() - start
        steps += updates * settings.batch_size
        reached = mean_return(learner.policy(), seed=steps)
        curve.append((steps, seconds, reached))
        if reached >= TARGET:
            return seconds, steps, curve
    return None, steps, curve


def throughput(learner: Contestant, settings: Settings, seconds: float) -> float:
    """Return environment steps per second over about ``seconds`` seconds of continued training."""
    start = time.perf_counter()
    learner.advance(1)
    updates = max(1, round(seconds / (time.perf_counter() - start)))
    start = time.perf_counter()
    learner.advance(updates)
    return updates * settings.batch_size / (time.perf_counter() - start)


def main() -> None:
    """Measure one contestant."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="warpdrive, sb3, jax, single or arrays")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=3.0, help="duration of the measurement of steps per second")
    parser.add_argument("--limit", type=float, default=60.0, help="maximum seconds of training")
    parser.add_argument("--every", type=int, default=8192, help="environment steps between evaluations")
    parser.add_argument("--began", type=float, default=_BEGAN, help="time at which the process was started")
    parser.add_argument("settings", nargs="*", help="fields of Settings, such as num_envs=64")
    options = parser.parse_intermixed_args()
    settings = Settings().with_values(**dict(item.split("=") for item in options.settings))
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    make = maker(options.name)
    learner = make(settings, options.seed + 1000)
    learner.advance(1)
    figures: dict[str, object] = {"start_up": time.time() - options.began}
    figures["steps_per_second"] = throughput(learner, settings, options.seconds)
    seconds, steps, curve = seconds_to_target(make, settings, options.seed, options.every, options.limit)
    figures |= {"seconds": seconds, "steps": steps, "curve": curve}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
