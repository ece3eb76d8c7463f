"""Support for running unmodified ``numba.cuda`` programs without a GPU: kernels are compiled for the CPU.

``python -m warpdrive.numba_cuda program.py`` runs a program, and ``pytest -p warpdrive.numba_cuda`` runs tests. A call
of ``warpdrive.numba_cuda.install()`` before ``numba.cuda`` is imported has the same effect from within a program.
"""

from __future__ import annotations

from typing import Any

from warpdrive.numba_cuda.installation import install as install, is_installed as is_installed, uninstall as uninstall

pytest_plugins = ["warpdrive.checks.pytest_plugin"]


def pytest_load_initial_conftests(early_config: Any) -> None:
    """Install before the first ``conftest.py``, as a plugin of pytest."""
    install()
