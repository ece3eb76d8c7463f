"""Wait for a condition that another thread or process brings about."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import Any


def wait_until(
    condition: Callable[[], object], process: subprocess.Popen[Any] | None = None, seconds: float = 120.0
) -> None:
    """Wait for ``condition``; fail if ``process`` ends first or it takes too long."""
    until = time.monotonic() + seconds
    while not condition():
        assert process is None or process.poll() is None, f"ended with {process.returncode} before"
        if time.monotonic() > until:
            raise TimeoutError
        time.sleep(0.05)
