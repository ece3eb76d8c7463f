"""``numba.cuda.testing``: base classes and decorators for tests of CUDA programs."""

from __future__ import annotations

import os
import platform
import shutil
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba.core import config

from warpdrive.numba_cuda.driver import COMPUTE_CAPABILITY
from warpdrive.numba_cuda.installation import location_of_numba_cuda

try:
    from numba.tests.support import SerialMixin, TestCase
except (ImportError, AssertionError):  # without its tests, or setuptools rejects an imported distutils
    from unittest import TestCase

    class SerialMixin:  # type: ignore[no-redef]
        """Marker of tests that do not run in parallel."""


numba_cuda_dir = Path(location_of_numba_cuda() or os.curdir)
test_data_dir = numba_cuda_dir / "tests" / "data"


class CUDATestCase(SerialMixin, TestCase):  # type: ignore[misc]
    """Test case that uses the device, without warnings about efficiency.

    Attributes:
        FLOAT16_RTOL: Relative error of a rounding to float16.
    """

    FLOAT16_RTOL = np.finfo(np.float16).eps

    def setUp(self) -> None:
        """Disable warnings."""
        self._warnings = config.CUDA_LOW_OCCUPANCY_WARNINGS, config.CUDA_WARN_ON_IMPLICIT_COPY
        config.CUDA_LOW_OCCUPANCY_WARNINGS = config.CUDA_WARN_ON_IMPLICIT_COPY = 0

    def tearDown(self) -> None:
        """Enable them again."""
        config.CUDA_LOW_OCCUPANCY_WARNINGS, config.CUDA_WARN_ON_IMPLICIT_COPY = self._warnings

    def skip_if_lto(self, reason: str) -> None:
        """Do nothing: there is no linking."""


class ContextResettingTestCase(CUDATestCase):
    """Test case after which the context is reset."""


class ForeignArray:
    """Array of another library, which only has a CUDA array interface."""

    def __init__(self, arr: Any) -> None:
        self._arr = arr
        self.__cuda_array_interface__ = arr.__cuda_array_interface__


Decorator = Callable[[Any], Any]


def ensure_supported_ccs_initialized() -> None:
    """Do nothing."""


def skip_on_cudasim(reason: str) -> Decorator:
    """Skip a test if there is no GPU."""
    return unittest.skipIf(config.ENABLE_CUDASIM, reason)


def skip_unless_cudasim(reason: str) -> Decorator:
    """Skip a test if there is a GPU."""
    return unittest.skipUnless(config.ENABLE_CUDASIM, reason)


def xfail_unless_cudasim(fn: Any) -> Any:
    """Expect a test to fail if there is a GPU."""
    return fn if config.ENABLE_CUDASIM else unittest.expectedFailure(fn)


def _never(reason: str) -> Decorator:
    return lambda test: test


skip_if_external_memmgr = skip_on_wsl2 = skip_if_mvc_enabled = skip_with_cuda_python = _never
skip_on_nvjitlink_13_1_sm_120 = _never


def _needs(what: str) -> Decorator:
    return unittest.skip(f"needs {what}")


skip_unless_conda_cudatoolkit = skip_if_nvjitlink_missing = lambda reason: _needs("the CUDA toolkit")
skip_if_cuda_includes_missing = skip_if_curand_kernel_missing = _needs("the headers of CUDA")
skip_if_cudadevrt_missing = _never("")
skip_if_mvc_libraries_unavailable = _needs("cubinlinker and ptxcompiler")
skip_on_standalone_numba_cuda = _never("")


def skip_under_cuda_memcheck(reason: str) -> Decorator:
    """Skip a test if a memory checker runs it."""
    return unittest.skipIf("CUDA_MEMCHECK" in os.environ, reason)


def skip_without_nvdisasm(reason: str) -> Decorator:
    """Skip a test if the disassembler is missing."""
    return unittest.skipIf(shutil.which("nvdisasm") is None, reason)


def skip_with_nvdisasm(reason: str) -> Decorator:
    """Skip a test if the disassembler is there."""
    return unittest.skipIf(shutil.which("nvdisasm") is not None, reason)


def skip_on_arm(reason: str) -> Decorator:
    """Skip a test on processors of ARM."""
    return unittest.skipIf(platform.processor().startswith(("arm", "aarch")), reason)


def cc_X_or_above(major: int, minor: int) -> bool:  # noqa: N802
    """Return True if the device has that compute capability."""
    return (major, minor) <= COMPUTE_CAPABILITY


def _needs_capability(major: int, minor: int) -> Decorator:
    return unittest.skipUnless(cc_X_or_above(major, minor), f"needs compute capability {major}.{minor}")


skip_unless_cc_50, skip_unless_cc_53 = _needs_capability(5, 0), _needs_capability(5, 3)
skip_unless_cc_60, skip_unless_cc_75 = _needs_capability(6, 0), _needs_capability(7, 5)
skip_unless_cc_90 = _needs_capability(9, 0)
