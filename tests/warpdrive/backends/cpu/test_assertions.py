"""An assertion in a kernel ends the launch with an error that names the author's line."""

from __future__ import annotations

import inspect
import sys
import threading

import numpy as np
import pytest
from numba import cuda

import warpdrive as wd


def positive(x):
    assert x > 0, "only positive numbers"
    return x


@wd.kernel
def checked(a, out):
    i = cuda.grid(1)
    assert i < a.shape[0]
    cuda.syncthreads()
    out[i] = positive(a[i])


def line(function: object, text: str) -> int:
    lines, first = inspect.getsourcelines(getattr(function, "function", function))  # type: ignore[arg-type]
    return first + next(number for number, found in enumerate(lines) if text in found)


@pytest.mark.parametrize("blocks", [1, 8])
def test_assertions_that_hold_change_nothing(blocks: int) -> None:
    a = np.arange(1, blocks * 4 + 1, dtype=np.int32)
    out = np.zeros_like(a)
    checked[blocks, 4](a, out)
    np.testing.assert_array_equal(out, a)


@pytest.mark.parametrize("blocks", [1, 8])
def test_an_assertion_that_fails_raises(blocks: int, capfd: pytest.CaptureFixture[str]) -> None:
    a = np.arange(1, blocks * 4 + 1, dtype=np.int32)
    a[2] = -1
    expected = f"{__file__}:{line(positive, 'assert')}: the assertion failed: only positive numbers"
    with pytest.raises(wd.KernelError) as caught:
        checked[blocks, 4](a, np.zeros_like(a))
    assert str(caught.value) == expected
    a[2] = 1
    checked[blocks, 4](a, np.zeros_like(a))  # the next launch is a new one
    assert capfd.readouterr().err == ""


def test_launches_in_several_threads_raise_their_own_errors() -> None:
    hook, raised = sys.unraisablehook, [0, 0]

    def launch(number: int) -> None:
        a = np.full(4, 1 - number, np.int32)
        for _ in range(300):
            try:
                checked[1, 4](a, np.zeros_like(a))
            except wd.KernelError:
                raised[number] += 1

    threads = [threading.Thread(target=launch, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert raised == [0, 300] and sys.unraisablehook is hook


def test_an_assertion_without_a_message_says_what_did_not_hold() -> None:
    a = np.ones(4, np.int32)
    with pytest.raises(wd.KernelError) as caught:
        checked[1, 5](a, np.zeros(5, np.int32))
    place = f"{__file__}:{line(checked, 'assert')}"
    assert str(caught.value) == f"{place}: the assertion failed: i < a.shape[0]"
