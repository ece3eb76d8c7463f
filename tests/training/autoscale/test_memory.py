"""Memory available to a process: from a simulated ``/proc`` and ``/sys``, and from real limits."""

from __future__ import annotations

import subprocess
import sys

import pytest

from warpdrive.errors import ConfigError
from warpdrive.training.autoscale.memory import available_memory, parse_bytes

GIB = 2**30


def machine(root, cgroup: str, **files: str):
    """A machine with 8 GiB free. ``files`` are below ``sys/fs/cgroup``, with ``__`` for ``/``."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(f"MemTotal: 99999999 kB\nMemAvailable:   {8 * GIB // 1024} kB\n")
    (root / "proc/self/cgroup").write_text(cgroup)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name.replace("__", "/").replace("-", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_free_memory(tmp_path):
    assert available_memory(machine(tmp_path, "0::/\n")) == (8 * GIB, "free memory")


def test_the_limit_of_a_control_group_and_of_those_around_it(tmp_path):
    files = {
        "jobs__memory-max": f"{3 * GIB}\n",
        "jobs__memory-current": f"{2 * GIB}\n",
        "jobs__memory-stat": f"anon 1\ninactive_file {GIB // 2}\n",
        "jobs__mine__memory-max": "max\n",
        "jobs__mine__memory-current": f"{GIB}\n",
    }
    found = available_memory(machine(tmp_path, "0::/jobs/mine\n", **files))
    assert found.bytes == 1.5 * GIB, "files in the cache are given back when memory is needed"
    assert "3.00 GiB" in found.limited_by


def test_a_control_group_of_the_first_version_in_a_container(tmp_path):
    """There the group's path is that outside of the container, and its files are at the mount point."""
    files = {"memory__memory.limit_in_bytes": f"{GIB}\n", "memory__memory.usage_in_bytes": f"{GIB // 4}\n"}
    found = available_memory(machine(tmp_path, "5:cpu:/\n4:memory:/docker/abc\n", **files))
    assert found.bytes == 0.75 * GIB


@pytest.mark.skipif(sys.platform != "linux", reason="address space is limited on Linux only")
def test_a_limit_of_the_address_space():
    """The limit lies 2 GiB above what the process has, which depends on the libraries that PyTorch maps."""
    code = f"""
import resource
from pathlib import Path
from warpdrive.training.autoscale.memory import available_memory

mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (mapped + {2 * GIB},) * 2)
print(*available_memory(), sep="|")
"""
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    number, by = printed.stdout.strip().split("|")
    assert 1.9 * GIB < float(number) <= 2 * GIB, "what the process has already does not count as available"
    assert "RLIMIT_AS" in by


@pytest.mark.parametrize(
    ("text", "size"), [("2GiB", 2 * GIB), ("1500MB", 15 * 10**8), ("1.5g", 15 * 10**8), ("512 MiB", 2**29), ("77", 77)]
)
def test_sizes_in_words(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "much", "2 XB", "-1GiB", "0"])
def test_what_is_no_size(text):
    with pytest.raises(ConfigError, match="expected a size such as 2GiB"):
        parse_bytes(text)
