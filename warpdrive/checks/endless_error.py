"""Locations of the threads of a block that does not end."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from warpdrive.checks.interpreter import Thread
from warpdrive.checks.null_log import EndlessError, Line, NullLog


def endless_error(threads: Sequence[Thread], log: NullLog, line: Line) -> EndlessError:
    """Return the error for a block whose running thread exceeded the maximum number of steps.

    Args:
        threads: Threads of the block.
        log: Log of the launch.
        line: Line of the last step.

    Returns:
        The error, with the location of each waiting thread.
    """
    waiting: dict[str, list[int]] = {}
    number = {inspect.GEN_CREATED: 0, inspect.GEN_CLOSED: 0}
    for thread in threads:
        state = inspect.getgeneratorstate(thread.run)
        if state == inspect.GEN_SUSPENDED:
            code, number_of_line, _ = thread.place[-1]
            waiting.setdefault(f"{code.co_filename}:{number_of_line}", []).append(thread.number)
        elif thread.number != log.thread:
            number[state] += 1
    here = f"{line[0].co_filename}:{line[1]}"
    who, where = f"thread {log.me}", f"{here}{_read(log)}"
    parts = [f"{who} does not end within {log.max_steps:,} steps: it is at {where}"]
    if log.steps[log.thread] <= log.max_steps:
        parts = [
            f"the threads of a block do not end within {log.steps_of_block - 1:,} steps together: {who} is at {where}"
        ]
    for place, numbers in waiting.items():
        names = [str(log.grid.thread_name(number)) for number in numbers[:4]]
        more = f" and {len(numbers) - 4} more" if len(numbers) > 4 else ""
        parts.append(f"thread{'s' * (len(numbers) > 1)} {', '.join(names)}{more} at the barrier {place}")
    if number[inspect.GEN_CREATED]:
        parts.append(f"{number[inspect.GEN_CREATED]} not started")
    if number[inspect.GEN_CLOSED]:
        parts.append(f"{number[inspect.GEN_CLOSED]} ended")
    return EndlessError("; ".join(parts), (here, *waiting))


def _read(log: NullLog) -> str:
    """Return a description of the running thread's last read."""
    if log.thread not in log.last_read:
        return ""
    block, address = log.last_read[log.thread]
    return f", and read '{block.element_at(address)}' last, which is {block.array[block.index_of(address)]}"
