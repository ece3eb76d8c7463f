"""Programs that print a duration, run in new processes with an empty or a filled compile cache."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time


def seconds(program: str, cache: str) -> float:
    """Run a program in a new process and return the seconds in its last line of output.

    Its environment has the time of its start as ``STARTED``. Modules are compiled to bytecode once, as pip does. Its
    standard error is that of this process.

    Raises:
        subprocess.CalledProcessError: If the program fails.
    """
    environment = {**os.environ, "WARPDRIVE_CACHE_DIR": cache, "STARTED": str(time.time())}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout.splitlines()[-1])


def compiling(program: str) -> float:
    """Run a program with an empty compile cache and return the seconds it prints."""
    with tempfile.TemporaryDirectory() as cache:
        return seconds(program, cache)
