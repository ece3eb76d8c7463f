"""Compilation of the backend's own small functions, with caching."""

from __future__ import annotations

from types import ModuleType

from warpdrive.backends.shared import cache


def native_module(text: str) -> ModuleType:
    """Return the module with this source, whose functions numba compiles; it is cached like kernels."""
    key = cache.key_of(text)
    with cache.one_process_at_a_time(key, "generated module"):
        if cache.is_stored(key):
            try:
                if cache.path(key, "kernel.py").read_text() == text:
                    return cache.load(key, "kernel")
            except Exception:  # the stored module is damaged
                pass
            cache.discard(key)
        cache.store(key, {"kernel.py": text})
        return cache.load(key, "kernel")
