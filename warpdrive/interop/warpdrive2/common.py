"""Location of files that programs expect next to the package ``warp_drive``."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from pathlib import Path


def get_project_root() -> Path:
    """Return the folder of a ``warp_drive`` package on the Python path; without one, the working directory."""
    found = PathFinder.find_spec("warp_drive", sys.path)
    if found is not None and found.origin is not None:
        return Path(found.origin).absolute().parent.parent
    return Path.cwd()
