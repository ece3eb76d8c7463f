"""Compile the small functions that the backend itself needs, or find them compiled."""

from __future__ import annotations

from types import ModuleType

from warpdrive.backends import cache


def native_module(text: str) -> ModuleType:
    """Return the module with this text, whose functions numba compiles; it is kept in the cache as kernels are."""
    key = cache.key_of(text)
    with cache.one_process_at_a_time(key):
        if cache.is_stored(key):
            try:
                return cache.load(key, "kernel")
            except Exception:  # what was stored is damaged
                cache.discard(key)
        cache.store(key, {"kernel.py": text})
        return cache.load(key, "kernel")
