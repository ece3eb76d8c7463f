"""Available memory of this process, and the origin of the limit."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import NamedTuple

from warpdrive.errors import ConfigError, shown

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


class Available(NamedTuple):
    """Available memory in bytes, and the origin of the limit."""

    bytes: float
    limited_by: str


def available_memory(root: Path = Path("/")) -> Available:
    """Return the host memory available to this process: the minimum of free memory, cgroup and process limits.

    Args:
        root: Folder of ``/proc`` and ``/sys``.
    """
    return min([_free_memory(root), *_control_groups(root), *_process_limits(root)])


def parse_bytes(text: str) -> int:
    """Parse ``"2GiB"``, ``"1500MB"``, ``"1.5G"`` (decimal, as ``MB``) or a number of bytes.

    Raises:
        ConfigError: If the text has another form.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", text.lower())
    if not found or not 0 < float(found[1]) < 2**63:
        raise ConfigError(f"--memory: found {shown(text)}, expected a size such as 2GiB, 1500MB or 800MiB")
    return int(float(found[1]) * _UNITS[found[2] or ""])


def gib(number: float) -> str:
    """Format a number of bytes: ``"1.25 GiB"``."""
    return f"{number / 2**30:.2f} GiB"


def _free_memory(root: Path) -> Available:
    table = _read(root / "proc/meminfo")
    found = re.search(r"^MemAvailable:\s+(\d+) kB", table, re.MULTILINE)
    if found:
        return Available(int(found[1]) * 1024, "free memory")
    try:  # systems other than Linux report no free memory: use the total
        return Available(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "memory")
    except (AttributeError, ValueError, OSError):
        return Available(math.inf, "memory")


def _control_groups(root: Path) -> list[Available]:
    """Return the limits of this process's cgroup and its ancestors, with which it shares their limits."""
    found = []
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            mount, limit, usage, cache = root / "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            mount = root / "sys/fs/cgroup/memory"
            limit, usage, cache = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
        else:
            continue
        group = mount / path.lstrip("/")
        for folder in (group, *group.parents):  # in a container, the own path may be outside of the visible tree
            most, used = _number(folder / limit), _number(folder / usage)
            if most is not None and used is not None and most < 2**60:
                cached = re.search(rf"^{cache} (\d+)", _read(folder / "memory.stat"), re.MULTILINE)
                used -= int(cached[1]) if cached else 0  # cached files, which are evicted when memory is needed
                found.append(Available(max(0, most - used), f"the control group's limit of {gib(most)}"))
            if folder == mount:
                break
    return found


def _process_limits(root: Path) -> list[Available]:
    try:
        import resource
    except ImportError:  # on Windows, which has no such limits
        return []

    pages = [int(number) for number in _read(root / "proc/self/statm").split()] or [0] * 7
    page = resource.getpagesize()
    used = {"RLIMIT_AS": pages[0] * page, "RLIMIT_DATA": pages[5] * page}
    limits = {name: resource.getrlimit(getattr(resource, name))[0] for name in used}
    return [
        Available(max(0, limit - used[name]), f"{name} of {gib(limit)} (ulimit)")
        for name, limit in limits.items()
        if limit != resource.RLIM_INFINITY
    ]


def _number(path: Path) -> int | None:
    text = _read(path).strip()
    return int(text) if text.isdigit() else None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
