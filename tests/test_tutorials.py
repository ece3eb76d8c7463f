"""The tutorials: stored notebooks match their text files, and run to the end with the solutions of their exercises."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import sys

import nbformat
import pytest
from exhaustive import exhaustive
from paths import ROOT

from warpdrive.backends.pycuda.host import host_compiler
from warpdrive.errors import BackendError

sys.path.append(str(ROOT / "tools"))
pytest.importorskip("jupytext")
tutorials = importlib.import_module("tutorials")

SOURCES = tutorials.sources()
USUAL = [path for path in SOURCES if path.stem[:2] == "01"]
"""Tutorials that `make test` executes; the others run what other tests run, too."""
LARGEST = 600_000  # bytes: small enough to be read on a web page
COMPILED = {"06_cuda_c"}
"""Tutorials that compile CUDA C."""
INDIRECT = {"11_other_libraries": ("pettingzoo", "torchrl")}
"""Modules that WarpDrive imports for a tutorial, and its cells do not."""
OWN = {"14_coming_from_warpdrive2": ("fishing", "warp_drive")}
"""Modules that the cells of a tutorial make before they import them."""
INSTALLATION = (
    "# In a hosted notebook (Colab, Kaggle): upload a source checkout or wheel of WarpDrive, and run the next line "
    "without its #.\n# %pip install --quiet "
)


@pytest.fixture(params=SOURCES, ids=lambda path: path.stem)
def source(request):
    return request.param


@pytest.fixture
def stored(source):
    """The notebook with outputs that is paired with the text file."""
    return nbformat.read(source.with_suffix(".ipynb"), as_version=4)


def tagged(notebook, tag):
    return [cell for cell in notebook.cells if tag in cell.metadata.get("tags", [])]


def printed(cell):
    return "".join(output.text for output in cell.outputs if output.output_type == "stream")


def has_picture(notebook):
    data = [output.data for cell in notebook.cells for output in cell.get("outputs", []) if "data" in output]
    return any("image/png" in found or "data:image/" in found.get("text/html", "") for found in data)


def missing(source, notebook):
    """Return what the machine lacks to run the notebook: modules, and a compiler."""
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    imports = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = [node.module if isinstance(node, ast.ImportFrom) else node.names[0].name for node in imports]
    modules = {name.partition(".")[0] for name in names} | set(INDIRECT.get(source.stem, ()))
    modules -= set(OWN.get(source.stem, ()))
    lacking = sorted(name for name in modules if importlib.util.find_spec(name) is None)
    if source.stem in COMPILED:
        try:
            host_compiler()
        except BackendError:
            lacking.append("a C++ compiler")
    return lacking


def test_each_notebook_has_a_source():
    assert [path.with_suffix(".ipynb") for path in SOURCES] == sorted((ROOT / "tutorials").glob("*.ipynb"))


def test_the_stored_notebook_matches_its_source(source, stored):
    def cells(notebook):
        return [(cell.cell_type, cell.source, list(cell.metadata.get("tags", []))) for cell in notebook.cells]

    assert cells(stored) == cells(tutorials.read(source)), f'run make tutorials ARGS="{source.stem[:2]}"'


def test_the_stored_notebook_was_executed(source, stored):
    nbformat.validate(stored)
    assert source.with_suffix(".ipynb").stat().st_size < LARGEST
    code = [cell for cell in stored.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1)), "run once, in order"
    assert all(output.output_type != "error" for cell in code for output in cell.outputs)
    assert has_picture(stored)
    for number, cell in enumerate(tagged(stored, "check"), start=1):
        assert printed(cell).strip() == f"Exercise {number}: not answered yet"


def test_the_layout_of_the_notebook(source, stored):
    assert stored.cells[0].source.startswith("# ")
    assert stored.cells[1].source.startswith(INSTALLATION)
    headings = re.findall(r"^## (.+)$", "\n".join(c.source for c in stored.cells if c.cell_type == "markdown"), re.M)
    assert [name for name in headings if name in ("What was learned", "Exercises", "Where next")] == [
        "What was learned",
        "Exercises",
        "Where next",
    ]


def test_links_between_notebooks_and_to_pages_lead_somewhere(source, stored):
    text = "\n".join(cell.source for cell in stored.cells if cell.cell_type == "markdown")
    text = re.sub(r"```.*?```|`[^`\n]+`", "", text, flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        assert target.startswith("https://") or (source.parent / target).exists(), target


@pytest.mark.parametrize("source", exhaustive(SOURCES, USUAL), ids=lambda path: path.stem)
def test_the_notebook_runs_with_the_solutions(source):
    notebook = tutorials.read(source)
    if lacking := missing(source, notebook):
        pytest.skip(f"needs {', '.join(lacking)}")
    exercises = tutorials.solve(notebook)
    assert exercises >= 2
    tutorials.execute(notebook)
    assert [printed(cell).strip() for cell in tagged(notebook, "check")] == [
        f"Exercise {number}: correct" for number in range(1, exercises + 1)
    ]
    assert has_picture(notebook)
