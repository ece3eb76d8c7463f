"""The backend whose results others must have bit for bit."""

from __future__ import annotations

import pytest

from warpdrive.backends.interface import Backend
from warpdrive.backends.loading import wasm_backend

pytest.importorskip("wasmtime", reason="WebAssembly is tested in wasmtime (extra 'test')")


@pytest.fixture(scope="session")
def wasm() -> Backend:
    """Give the backend that runs kernels as WebAssembly."""
    return wasm_backend()
