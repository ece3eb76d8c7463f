"""Programs of WarpDrive 2, unmodified: its modules by their names, with Numba kernels on a GPU or on the CPU.

``warpdrive.interop.warpdrive2.install()``, before ``warp_drive`` is imported, puts them in place.
"""

from __future__ import annotations

from warpdrive.interop.warpdrive2.installation import (
    install as install,
    is_installed as is_installed,
    uninstall as uninstall,
)
