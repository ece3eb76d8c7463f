"""Fake GPU: a driver, compiled from C, that logs calls and runs nothing."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from warpdrive.backends.cuda import device, driver, pytorch
from warpdrive.backends.cuda.driver import Driver


class FakeGpu:
    """Calls of the fake driver, and its answers."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library, self.driver = library, Driver(library)
        self.started: list[int] = []
        self.current_device, self.current_stream = 0, 0
        library.fake_log.restype = ctypes.c_char_p
        library.fake_reset()

    def set(self, **values: int) -> None:
        """Change what the driver answers; a function's name makes it fail with that code."""
        for name, value in values.items():
            self.library.fake_set(name.encode(), value)

    @property
    def log(self) -> list[str]:
        return self.library.fake_log().decode().splitlines()

    def forget(self) -> None:
        self.library.fake_forget()


@pytest.fixture(scope="session")
def fake_library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    path = tmp_path_factory.mktemp("driver") / "libfake.so"
    source = Path(__file__).parent / "fake_driver.c"
    subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(path)], check=True)
    return ctypes.CDLL(str(path))


@pytest.fixture
def fake_gpu(fake_library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGpu]:
    """Give a GPU that runs nothing, in the place of this machine's."""
    fake = FakeGpu(fake_library)
    for module in (driver, device):
        monkeypatch.setattr(module, "the_driver", lambda: fake.driver)
    monkeypatch.setattr(pytorch, "start", fake.started.append)
    monkeypatch.setattr(pytorch, "make_current", lambda index: setattr(fake, "current_device", index))
    monkeypatch.setattr(pytorch, "current_device", lambda: fake.current_device)
    monkeypatch.setattr(pytorch, "current_stream_of", lambda index: lambda: fake.current_stream)
    device.device_at.cache_clear()
    yield fake
    device.device_at.cache_clear()
    fake.library.fake_reset()
