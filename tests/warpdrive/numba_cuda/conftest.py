"""``numba.cuda`` of WarpDrive within a module of tests: what other tests import afterwards is numba's again."""

from __future__ import annotations

import importlib

import pytest

import warpdrive.numba_cuda


@pytest.fixture(scope="module")
def cuda():
    warpdrive.numba_cuda.install()
    yield importlib.import_module("numba.cuda")
    warpdrive.numba_cuda.uninstall()
