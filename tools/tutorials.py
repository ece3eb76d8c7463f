"""Execute the tutorials: convert ``tutorials/NN_name.py`` to notebooks, run them and store their outputs.

    python tools/tutorials.py           # all of them
    python tools/tutorials.py 02 05     # these

The text files (jupytext's py:percent format) are the source; the notebooks are generated, and committed with their
outputs, which viewers show. ``tests/test_tutorials.py`` fails where the two differ.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import jupytext
import nbformat
from jupytext.config import load_jupytext_configuration_file
from nbclient import NotebookClient
from nbformat import NotebookNode
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

FOLDER = Path(__file__).resolve().parents[1] / "tutorials"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
TIMEOUT = 600
"""Seconds that a cell may take."""
SOLUTION = re.compile(r"<details><summary>Solution</summary>\n+```python\n(.*?)\n```\n+</details>", re.DOTALL)


def main() -> None:
    """Execute the notebooks named on the command line, and store them."""
    parser = argparse.ArgumentParser(description="Execute tutorials, and store their notebooks with outputs.")
    parser.add_argument("numbers", nargs="*", metavar="NN", help="tutorials, such as 02 05 (default: all of them)")
    wanted = parser.parse_args().numbers
    paths = [path for path in sources() if not wanted or any(path.name.startswith(number) for number in wanted)]
    if unknown := [number for number in wanted if not any(path.name.startswith(number) for path in paths)]:
        parser.error(f"no tutorial starts with {unknown[0]}: expected one of {', '.join(p.stem for p in sources())}")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("cells"))
    for path in paths:
        started = time.perf_counter()
        notebook = read(path)
        with Progress(*columns, TimeElapsedColumn(), transient=True) as progress:
            task = progress.add_task(path.stem, total=len(notebook.cells))
            execute(notebook, on_cell=lambda index, task=task, shown=progress: shown.update(task, completed=index))
        target = path.with_suffix(".ipynb")
        nbformat.write(notebook, target)
        kilobytes = target.stat().st_size / 1000
        print(f"{target.name}: {time.perf_counter() - started:.0f} s, {kilobytes:.0f} kB")


def sources() -> list[Path]:
    """Return the paths of the text files of all tutorials, in their order."""
    return sorted(FOLDER.glob("[0-9][0-9]_*.py"))


def read(path: Path) -> NotebookNode:
    """Return the notebook that a text file describes, without outputs.

    Cell ids are numbers, so that a changed cell changes no other line of the stored notebook.
    """
    configuration = load_jupytext_configuration_file(str(FOLDER / "jupytext.toml"))
    notebook = jupytext.read(path, fmt="py:percent", config=configuration)
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNEL, "language_info": {"name": "python"}})
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for number, cell in enumerate(notebook.cells, start=1):
        cell.id = f"cell-{number}"
    return notebook


def execute(notebook: NotebookNode, on_cell: Callable[[int], object] | None = None) -> NotebookNode:
    """Run all cells in an empty folder, and store their outputs in the notebook.

    Args:
        notebook: The notebook, which is changed.
        on_cell: Called with the index of each cell that starts.

    Returns:
        The notebook.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell raised an error.
    """
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(
            notebook,
            timeout=TIMEOUT,
            kernel_name=KERNEL["name"],
            record_timing=False,
            coalesce_streams=True,
            shutdown_kernel="immediate",  # a graceful one waits a second for Python to end
            on_cell_start=None if on_cell is None else lambda cell, cell_index: on_cell(cell_index),
            resources={"metadata": {"path": folder}},
        ).execute()
    # The kernel describes its version of Python: the same notebook for every one.
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNEL, "language_info": {"name": "python"}})
    return notebook


def solve(notebook: NotebookNode) -> int:
    """Replace the source of each cell tagged ``exercise`` by the solution that follows it.

    Returns:
        The number of exercises.

    Raises:
        ValueError: An exercise has no solution.
    """
    exercises = [index for index, cell in enumerate(notebook.cells) if "exercise" in cell.metadata.get("tags", [])]
    for index, end in zip(exercises, [*exercises[1:], None], strict=True):
        following = (cell.source for cell in notebook.cells[index:end] if cell.cell_type == "markdown")
        solution = next((found[1] for text in following if (found := SOLUTION.search(text))), None)
        if solution is None:
            raise ValueError(f"no solution follows the exercise in cell {index + 1}:\n{notebook.cells[index].source}")
        notebook.cells[index].source = solution
    return len(exercises)


if __name__ == "__main__":
    main()
