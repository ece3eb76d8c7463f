"""Repeated launches of a fused kernel, alternating with other machine code, as a single launch.

Replicas are independent: each part of them takes all its steps without waiting for the other parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from warpdrive.backends.host.native import native_module
from warpdrive.backends.host.workers import launch_on_all_cores
from warpdrive.backends.interface import MachineCode

_BLOCKS_OF_A_PART = 32
"""Minimum number of blocks per part: machine code for policies processes this many rows at once."""

_CACHE_LINES = 16
"""Number of words in two cache lines, which processors fetch together."""

# The table has the number of steps, the number of functions and the number of words per part; then, for each part, the
# counter, which the kernel reads as an array of one integer, and the functions with their tables.
_TEXT = """
from numba import cfunc
from warpdrive.backends.host.intrinsics import call_entry, load_word, store_word

@cfunc("void(intp, intp, intp)", cache=True, _nrt=False)
def repeat(table, part, parts):
    steps, functions = load_word(table), load_word(table + 8)
    counter = table + 24 + 8 * part * load_word(table + 16)
    for step in range(steps):
        store_word(counter, step)
        for number in range(functions):
            words = counter + 8 + 16 * number
            call_entry(load_word(words), load_word(words + 8), part, parts)
"""


class RepeatedLaunch:
    """Consecutive launches of a kernel, each preceded by other machine code.

    Args:
        kernel: Address of the kernel's machine code.
        table: Returns the kernel's argument table, given the address of its counter.
        blocks: Number of blocks.
        parts: Maximum number of parts.
        steps: Number of launches.
        before: Machine code that runs before each launch, in order.
    """

    def __init__(
        self,
        kernel: int,
        table: Callable[[int], npt.NDArray[np.int64]],
        blocks: int,
        parts: int,
        steps: int,
        before: Sequence[MachineCode],
    ) -> None:
        parts = min(parts, max(1, blocks // _BLOCKS_OF_A_PART))
        functions = len(before) + 1
        size = _CACHE_LINES + 2 * functions  # counters of two parts share no cache line
        self._words = words = np.zeros(3 + parts * size, np.int64)
        words[:3] = steps, functions, size
        self._tables = []
        for counter in range(3, len(words), size):
            own = table(int(words.ctypes.data) + 8 * counter)
            self._tables.append(own)
            called = [*before, MachineCode(kernel, int(own.ctypes.data))]
            words[counter + 1 : counter + 1 + 2 * functions] = [word for code in called for word in code]
        self.run = launch_on_all_cores(_machine_code(), int(words.ctypes.data), parts)

    def __call__(self) -> None:
        """Launch the kernel ``steps`` times, from step 0 on."""
        self.run()


@cache
def _machine_code() -> Any:
    return native_module(_TEXT).repeat.address
