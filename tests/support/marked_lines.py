"""Lines of kernels that a comment marks."""

from __future__ import annotations

import inspect
from typing import Any


def marked_lines(function: Any, mark: str = "here") -> set[str]:
    """Return ``file:line`` of each line of a kernel, or a function, that ends with ``# <mark>``."""
    plain = getattr(function, "function", function)
    lines, first = inspect.getsourcelines(plain)
    file = inspect.getsourcefile(plain)
    return {f"{file}:{first + n}" for n, text in enumerate(lines) if text.rstrip().endswith(f"# {mark}")}
