"""Kernels in the cells of a notebook: they run, and errors name the cell and line."""

from __future__ import annotations

import re

import nbformat
import pytest
from nbclient import NotebookClient

CELLS = {
    "imports": """
import numpy as np
import warpdrive as wd
from numba import cuda

@wd.device_function
def doubled(x):
    return x + x
""",
    "wrong": """
@wd.kernel
def step(x):
    i = cuda.grid(1)
    x[i] = doubled(x[i])
    cuda.no_such_thing()

x = np.ones(4, np.float32)
step[1, 4](x)
""",
    "mended": """
@wd.kernel
def step(x):
    i = cuda.grid(1)
    x[i] = doubled(x[i])

step[1, 4](x)
print(x.tolist())
""",
    "wrong device function": """
@wd.device_function
def doubled(x):
    return x + unknown
""",
    "uses it": """
@wd.kernel
def step(x):
    x[cuda.grid(1)] = doubled(x[cuda.grid(1)])

step[1, 4](x)
""",
    "device function mended": """
@wd.device_function
def doubled(x):
    return x + x + x

step = wd.kernel(step.function)
step[1, 4](x)
print(x.tolist())
""",
    "racy": """
def racy(x):
    i = cuda.grid(1)
    x[0] += np.float32(i)
    assert x[0] < 3

print(wd.check_launch(racy, 1, 2, np.zeros(4, np.float32)))
""",
    "check stops": "wd.check_launch(racy, 1, 4, np.full(4, 9, np.float32))",
    "launch stops": "wd.kernel(racy)[1, 1](np.full(4, 9, np.float32))",
    "debug": """
def shows(x):
    i = cuda.grid(1)
    print(f"thread {i} has {x[i]}")
    x[i] = [7, 8][i]

wd.debug(shows)[1, 4](x)
""",
}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Run the notebook, continuing after errors; return what each cell printed and what it raised."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text.strip()) for text in CELLS.values()])
    resources = {"metadata": {"path": tmp_path_factory.mktemp("notebook")}}
    NotebookClient(notebook, timeout=120, kernel_name="python3", allow_errors=True, resources=resources).execute()
    outputs = {}
    for name, cell in zip(CELLS, notebook.cells, strict=True):
        printed = "".join(output.text for output in cell.outputs if output.output_type == "stream")
        errors = [output for output in cell.outputs if output.output_type == "error"]
        raised = "\n".join("\n".join(error.traceback) for error in errors)
        outputs[name] = printed, re.sub(r"\x1b\[[0-9;]*m", "", raised)
    return outputs


def test_what_is_refused_is_told_with_its_cell_and_line(told):
    assert "KernelError: Cell In[2]:5: cuda.no_such_thing is not part of the kernel language" in told["wrong"][1]


def test_a_kernel_that_is_defined_anew_works_after_an_error(told):
    assert told["mended"] == ("[2.0, 2.0, 2.0, 2.0]\n", "")


def test_an_error_in_a_device_function_names_the_cell_of_the_device_function(told):
    assert "Cell In[4]:3" in told["uses it"][1]


def test_a_device_function_that_is_defined_anew_is_used(told):
    assert told["device function mended"] == ("[6.0, 6.0, 6.0, 6.0]\n", "")


def test_findings_show_the_lines_of_the_cell(told):
    printed, raised = told["racy"]
    assert not raised
    assert "Cell In[7]:3: thread 0 writes and thread 1 reads 'x[0]' in block 0" in printed
    assert "3 | x[0] += np.float32(i)" in printed
    assert "> use cuda.atomic.add(array, index, value)" in printed


def test_a_failed_assertion_has_its_cell_and_line(told):
    assert "Cell In[7]:4: thread 0 of block 0 stopped with AssertionError" in told["check stops"][1]
    assert "KernelError: Cell In[7]:4: the assertion failed: x[0] < 3" in told["launch stops"][1]


def test_debug_prints_and_its_traceback_shows_the_cell(told):
    printed, raised = told["debug"]
    assert printed.splitlines() == [f"thread {i} has 6.0" for i in range(3)]
    assert "IndexError: list index out of range" in raised
    assert "Cell In[10]:4" in raised or "Cell In[10], line 4" in raised
    assert "x[i] = [7, 8][i]" in raised.rpartition("Cell In[10]")[2]
