"""Fixtures shared by tests of several folders."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator

# As the command line does, for the tests and the processes that they start; read once, when PyTorch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import pytest
import torch

from warpdrive.backends.loading import load_backend, usable_backends
from warpdrive.backends.pycuda import ON_HOST_VARIABLE

# A job in the background of a shell ignores Ctrl-C, and so would the processes that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Without a GPU, kernel functions in CUDA C are compiled for the host.
if not torch.cuda.is_available():
    os.environ.setdefault(ON_HOST_VARIABLE, "1")


@pytest.fixture(params=usable_backends())
def backend(request: pytest.FixtureRequest) -> str:
    """Give the name of each backend that can run here; kernel functions of the test must be there in CUDA C, too."""
    return str(request.param)


@pytest.fixture(params=[name for name in usable_backends() if load_backend(name).language == "Python"])
def python_backend(request: pytest.FixtureRequest) -> str:
    """Give the name of each backend that can run here and runs kernel functions in Python."""
    return str(request.param)


@pytest.hookimpl(tryfirst=True)  # before marks are looked at
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what runs on a backend that uses the GPU; leave out what needs one where there is none."""
    on_gpu = {name for name in usable_backends() if load_backend(name).device.type == "cuda"}
    for item in items:
        parameters = getattr(item, "callspec", None) and item.callspec.params
        if parameters and on_gpu & {parameters.get("backend"), parameters.get("python_backend")}:
            item.add_marker(pytest.mark.gpu)
        if item.get_closest_marker("gpu") and not torch.cuda.is_available():
            item.add_marker(pytest.mark.skip(reason="needs a GPU"))


broken_by: list[str] = []
"""Test of this process that broke the GPU."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Notice that a test broke the GPU, and stop there: all following ones would fail in this process."""
    report = yield
    if report.failed and torch.cuda.is_initialized():
        try:
            torch.cuda.synchronize()
        except RuntimeError as error:
            broken_by.append(item.nodeid)
            if "PYTEST_XDIST_WORKER" not in os.environ:
                reason = str(error).partition("\n")[0]
                item.session.shouldstop = f"the GPU is unusable after {item.nodeid}: {reason}"
    return report


@pytest.hookimpl(trylast=True)  # once pytest-xdist has sent the reports
def pytest_runtest_logfinish(nodeid: str) -> None:
    """End a process of pytest-xdist whose GPU is broken: another one takes its place."""
    if nodeid in broken_by and "PYTEST_XDIST_WORKER" in os.environ:
        os._exit(1)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let garbage collections pass over what has been imported: compilation creates many objects."""
    gc.freeze()
