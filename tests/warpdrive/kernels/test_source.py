"""Locations of kernels: notebook cells, decorated, indented, with comments anywhere."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest

import warpdrive as wd

SHELL = """
import numpy as np
from numba import cuda
import warpdrive as wd
SPEED = 2
"""

CELL = """def faster(x):
    return x * SPEED


@wd.kernel
def kernel(out):
    i = cuda.threadIdx.x
    out[i] = i
    cuda.syncthreads()
    out[i] = faster(out[i]) + 1
"""


@pytest.fixture
def shell(tmp_path, monkeypatch):
    interactive = pytest.importorskip("IPython.core.interactiveshell")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    made = interactive.InteractiveShell.instance()
    made.run_cell(SHELL).raise_error()
    yield made
    made.history_manager.end_session()
    interactive.InteractiveShell.clear_instance()


def test_kernels_of_notebook_cells(shell):
    shell.run_cell(CELL).raise_error()
    shell.run_cell("out = np.zeros(3); kernel[1, 3](out)").raise_error()
    np.testing.assert_array_equal(shell.user_ns["out"], [1, 3, 5])
    # the cell of the function again, changed: the kernel of a new cell takes the new one
    shell.run_cell("def faster(x):\n    return x * 10").raise_error()
    shell.run_cell(CELL[CELL.index("@wd") :]).raise_error()
    shell.run_cell("kernel[1, 3](out)").raise_error()
    np.testing.assert_array_equal(shell.user_ns["out"], [1, 11, 21])


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("out[i] = i\n", "out[i] = ii\n", 8, "name 'ii' is not defined"),
        ("faster(out[i])", "out[i][2]", 10, "has no elements"),
        ("x * SPEED", "x[0] * SPEED", 2, "has no elements"),
    ],
)
def test_errors_of_notebook_cells_name_the_cell_and_line(shell, old, new, line, message):
    shell.run_cell(CELL.replace(old, new), store_history=True).raise_error()
    with pytest.raises(wd.errors.WarpDriveError, match=message) as found:
        shell.user_ns["kernel"][1, 3](np.zeros(3))
    number = shell.execution_count - 1
    assert str(found.value).startswith(f"Cell In[{number}]:{line}: "), str(found.value)


INDENTED = '''
from numba import cuda
import warpdrive as wd

class Holder:
    if True:
        @wd.kernel
# a comment further left than the code

        def kernel(
            out,
            count=3,
        ):
            """A docstring
of two lines."""
            i = cuda.threadIdx.x; twice = 2 * i
# another
            x = (twice
  + 1)
            cuda.syncthreads()
            out[i] = x

        @wd.kernel
        def wrong(out):
            out[0] = 1
# further left
            out[0] = unknown
'''


def test_indented_kernels_with_comments_anywhere(tmp_path):
    path = tmp_path / "indented_kernels.py"
    path.write_text(INDENTED)
    specification = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(specification)
    sys.modules[path.stem] = module
    specification.loader.exec_module(module)
    out = np.zeros(3)
    module.Holder.kernel[1, 3](out, 3)
    np.testing.assert_array_equal(out, [1, 3, 5])
    with pytest.raises(wd.errors.WarpDriveError, match=r"indented_kernels.py:27: name 'unknown' is not defined"):
        module.Holder.wrong[1, 1](out)
