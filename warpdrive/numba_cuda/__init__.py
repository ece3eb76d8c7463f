"""Programs of ``numba.cuda``, unmodified, without a GPU: their kernels run on this machine, compiled for its CPU.

``python -m warpdrive.numba_cuda program.py`` runs a program, ``pytest -p warpdrive.numba_cuda`` tests, and
``warpdrive.numba_cuda.install()``, before ``numba.cuda`` is imported, does the same from within.
"""

from __future__ import annotations

from typing import Any

from warpdrive.numba_cuda.installation import install as install, is_installed as is_installed, uninstall as uninstall

pytest_plugins = ["warpdrive.checks.pytest_plugin"]


def pytest_load_initial_conftests(early_config: Any) -> None:
    """Install before the first ``conftest.py``, as a plugin of pytest."""
    install()
