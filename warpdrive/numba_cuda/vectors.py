"""``numba.cuda.vector_types``."""

from __future__ import annotations

from warpdrive.numba_cuda.members import VECTORS, member

vector_types = {path: member(path) for path in VECTORS.values()}
