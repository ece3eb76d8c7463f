"""Streams and events. Launches and copies are synchronous, so there is nothing to wait for."""

from __future__ import annotations

import contextlib
import ctypes
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from warpdrive.numba_cuda.errors import INVALID_HANDLE, CudaAPIError

if TYPE_CHECKING:
    import asyncio


class Stream:
    """Stream of launches and copies, which are complete when their calls return.

    Args:
        handle: Number of the stream, 0 for the default stream.
    """

    external = False

    def __init__(self, handle: int = 0) -> None:
        self.handle = ctypes.c_void_p(handle)

    def __int__(self) -> int:
        return self.handle.value or 0

    def __repr__(self) -> str:
        kind = "External" if self.external else "Numbered"
        names = {0: "Default CUDA stream", 1: "Legacy default CUDA stream", 2: "Per-thread default CUDA stream"}
        return f"<{names.get(int(self), f'{kind} CUDA stream {int(self)}')} on the CPU>"

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return version and handle."""
        return 0, int(self)

    def synchronize(self) -> None:
        """Return at once."""

    @contextlib.contextmanager
    def auto_synchronize(self) -> Iterator[Stream]:
        """Return a context manager whose value is the stream."""
        yield self

    def add_callback(self, callback: Callable[[Any, int, Any], None], arg: Any = None) -> None:
        """Call ``callback(stream, 0, arg)``."""
        callback(self, 0, arg)

    def async_done(self) -> asyncio.Future[Stream]:
        """Return a future whose result is the stream, which is set in the next iteration of the event loop."""
        import asyncio

        loop = asyncio.get_running_loop()
        future: asyncio.Future[Stream] = loop.create_future()
        loop.call_soon(_set_result, future, self)
        return future


def _set_result(future: asyncio.Future[Stream], stream: Stream) -> None:
    if not future.done():
        future.set_result(stream)


class Event:
    """Event in a stream.

    Args:
        timing: If False, :meth:`elapsed_time` is an error.
    """

    def __init__(self, timing: bool = True) -> None:
        self.timing = timing
        self._recorded: float | None = None

    def record(self, stream: Any = 0) -> None:
        """Record the current time."""
        self._recorded = time.perf_counter()

    def query(self) -> bool:
        """Return True: all work before the event is complete."""
        return True

    def synchronize(self) -> None:
        """Return at once."""

    def wait(self, stream: Any = 0) -> None:
        """Return at once."""

    def elapsed_time(self, evtend: Event) -> float:
        """Return the milliseconds from this event to another.

        Raises:
            CudaAPIError: If one of them was not recorded, or records no time.
        """
        return event_elapsed_time(self, evtend)


def event_elapsed_time(evtstart: Event, evtend: Event) -> float:
    """Return the milliseconds between two events; see :meth:`Event.elapsed_time`."""
    start, end = evtstart._recorded, evtend._recorded
    if start is None or end is None or not (evtstart.timing and evtend.timing):
        raise CudaAPIError(INVALID_HANDLE, "an event was not recorded, or was created with timing=False")
    return (end - start) * 1e3


def external_stream(handle: int) -> Stream:
    """Return the stream of another library that has this handle."""
    stream = Stream(handle)
    stream.external = True
    return stream
