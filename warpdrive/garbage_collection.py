"""Context manager that pauses Python's garbage collector."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_blocks = 0  # in all threads
_was_enabled = False


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Disable cyclic garbage collection within a block; it is enabled again after the last block of all threads."""
    global _blocks, _was_enabled
    with _lock:
        if _blocks == 0:
            _was_enabled = gc.isenabled()
            gc.disable()
        _blocks += 1
    try:
        yield
    finally:
        with _lock:
            _blocks -= 1
            if _blocks == 0 and _was_enabled:
                gc.enable()
