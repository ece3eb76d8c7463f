"""Writing of reports."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from warpdrive.training.report.contents import read_contents
from warpdrive.training.report.page import report_page
from warpdrive.training.runtime.atomic_write import check_no_link, write_atomically

NAME = "report.html"


def write_report(runs: Sequence[str | Path], output: str | Path | None = None) -> Path:
    """Write the report of one run, or of several that are compared.

    Args:
        runs: Run folders, or names of runs.
        output: HTML file; None: ``report.html`` in the folder of the run if there is only one, otherwise here.

    Returns:
        The path of the file.

    Raises:
        CheckpointError: If a path is not a run, or the run has not logged anything yet.
    """
    contents = read_contents(runs)
    if output is None:
        output = (contents[0].logged.folder if len(contents) == 1 else Path(".")) / NAME
        check_no_link(output)
    path = Path(output)
    page = report_page(contents, path.parent)
    write_atomically(path, page.encode(errors="backslashreplace").decode())  # names of files may not be UTF-8
    return path
