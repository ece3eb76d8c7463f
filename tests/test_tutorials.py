"""Every notebook of the tutorials runs from its first cell to its last, and shows what it promises."""

from __future__ import annotations

import nbformat
import pytest
from nbclient import NotebookClient
from paths import ROOT

NOTEBOOKS = sorted((ROOT / "tutorials").glob("*.ipynb"))
LARGEST = 300_000  # bytes: small enough to be read on a web page
RESULTS = ("execute_result", "display_data")
SHORTER = {"quickstart": ("1_280_000", "128_000")}
"""Steps of training in a notebook, and how many show that its cells fit together."""


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_runs(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    if path.stem in SHORTER:
        steps, fewer = SHORTER[path.stem]
        (cell,) = (cell for cell in notebook.cells if cell.cell_type == "code" and steps in cell.source)
        cell.source = cell.source.replace(steps, fewer)
    NotebookClient(notebook, timeout=400, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    html = [output["data"].get("text/html", "") for output in outputs if output.output_type in RESULTS]
    assert any("data:image/gif" in text for text in html), "there is an animation to look at"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_is_stored_as_a_reader_wants_it(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert path.stat().st_size < LARGEST
    assert notebook.metadata.kernelspec.name == "python3"
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1)), "run once, in order"
    assert all(output.output_type != "error" for cell in code for output in cell.outputs)
