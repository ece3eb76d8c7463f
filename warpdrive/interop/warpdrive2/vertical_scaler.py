"""Search for the largest number of replicas and the largest batch that fit the device."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from warpdrive.interop.warpdrive2.processes import ProcessWrapper

_SECONDS = 30.0  # of a trial
_ANY_DISTANCE = 2**62
_SHARE_OF_MEMORY = 0.5


def best_param_search(low: int = 1, margin: int = 1, func: Callable[[int], Any] | None = None) -> int | None:
    """Return the largest number for which a function does not raise.

    Args:
        low: Number to start from.
        margin: Tolerated distance from the largest number.
        func: The function.

    Returns:
        The number; None if the function raises for 1.
    """
    assert low > 0 and margin > 0 and func is not None

    def works(value: int) -> bool:
        print(f"Trying {value}")
        try:
            func(value)
        except Exception as error:
            logging.error(error)
            return False
        return True

    while not works(low):
        low //= 2
        if low == 0:
            return None
    high = 2 * low
    while works(high):
        low, high = high, 2 * high
    while high - low > margin:
        middle = (low + high) // 2
        low, high = (middle, high) if works(middle) else (low, middle)
    print(f"Setting the parameter to {low}")
    return low


class _Trial(ProcessWrapper):
    """Process that runs out of memory before the machine does."""

    def run(self) -> None:
        """Run the target."""
        with suppress(ImportError, AttributeError, OSError, ValueError):  # of systems without such limits
            import resource

            memory = int(_SHARE_OF_MEMORY * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
            resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
        super().run()


def perform_auto_vertical_scaling(
    setup_trainer_and_train: Callable[..., Any], config: dict[str, Any], num_iters: int = 2
) -> dict[str, Any]:
    """Set ``num_envs`` and ``train_batch_size`` to about the largest with which training succeeds.

    Training fails if it exceeds half the machine's memory, or half a minute. Sizes are doubled or halved only.

    Args:
        setup_trainer_and_train: Function that trains, with the arguments ``run_configuration`` and ``verbose``.
        config: Run configuration, which is changed.
        num_iters: Updates of a trial.

    Returns:
        The run configuration.
    """
    trainer, episode_length = config["trainer"], config["env"]["episode_length"]
    num_episodes = trainer["num_episodes"]

    def train(num_envs: int, steps: int) -> None:
        batch = num_envs * steps
        trainer.update(num_envs=num_envs, train_batch_size=batch, num_episodes=num_iters * batch / episode_length)
        process = _Trial(target=setup_trainer_and_train, kwargs={"run_configuration": config, "verbose": False})
        process.start()
        process.join(_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()
            raise TimeoutError(f"training with {num_envs} replicas and {steps} steps takes more than {_SECONDS:.0f} s")
        if process.exception is not None:
            raise process.exception
        if process.exitcode:
            raise MemoryError(f"training with {num_envs} replicas and {steps} steps ended with {process.exitcode}")

    def search(low: int, works: Callable[[int], None]) -> int:
        found = best_param_search(low, _ANY_DISTANCE, works)
        assert found is not None, "training fails with the smallest sizes"
        return found

    num_envs = search(trainer["num_envs"], lambda count: train(count, 1))
    steps = search(8, lambda count: train(num_envs, count))
    trainer.update(num_envs=num_envs, train_batch_size=num_envs * steps, num_episodes=num_episodes)
    return config
