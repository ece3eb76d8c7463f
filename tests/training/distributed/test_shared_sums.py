"""Sums in shared memory: of two processes, and after one has ended."""

import hashlib
import os
import platform
import subprocess
import sys

import pytest
import torch

from warpdrive.training.distributed import shared_sums
from warpdrive.training.distributed.process_group import ProcessGroup
from warpdrive.training.distributed.shared_sums import SharedSums

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="shared memory is used on Linux, on x86-64"
)
TIMES = 300

OTHER = f"""
import sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
from test_shared_sums import SharedSums, os, summed
name, peer = sys.argv[1], int(sys.argv[2])
print(os.getpid(), flush=True)
sums = SharedSums(os.open(name, os.O_RDWR), 1, [peer, os.getpid()])
print(summed(sums)[1], flush=True)
"""


def part(rank, number):
    """Terms that a process adds to sums: of several dtypes, up to the largest size."""
    generator = torch.Generator().manual_seed(2 * number + rank)
    size = [0, 1, 9155, shared_sums.MAX_BYTES // 8][number % 4]
    dtype = [torch.float32, torch.float64, torch.int64][number % 3]
    return (1000 * torch.rand(size, generator=generator)).to(dtype)


def summed(sums):
    """The sums of all parts, and a hash of their bits."""
    found = []
    for number in range(TIMES):
        found.append(part(sums.rank, number))
        assert sums.can_sum(found[-1])
        sums.all_reduce(found[-1])
    return found, hashlib.sha256(b"".join(tensor.numpy().tobytes() for tensor in found)).hexdigest()


def test_sums_are_equal_bit_for_bit_and_the_end_of_a_process_is_noticed():
    name = shared_sums._allocated(2)
    assert name is not None
    try:
        command = [sys.executable, "-c", OTHER, name, str(os.getpid())]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout is not None
            sums = SharedSums(os.open(name, os.O_RDWR), 0, [os.getpid(), int(other.stdout.readline())])
            found, bits = summed(sums)
            assert other.stdout.readline().strip() == bits
            with pytest.raises(RuntimeError, match="a process has ended"):
                sums.all_reduce(torch.ones(3))
    finally:
        os.unlink(name)
    for number, total in enumerate(found):
        assert torch.equal(total, part(0, number) + part(1, number))
    assert not sums.can_sum(torch.zeros(shared_sums.MAX_BYTES // 4 + 1))
    assert not sums.can_sum(torch.zeros(4, 4).t()[:2])


def test_without_shared_memory_there_are_none(monkeypatch, tmp_path):
    """A group of one process stands for those of several, which decide together."""
    group = ProcessGroup()
    assert SharedSums.join(group) is not None
    assert not [name for name in os.listdir("/dev/shm") if name.startswith(shared_sums.PREFIX)]
    for other in (tmp_path / "missing", None):
        monkeypatch.setattr(shared_sums, "_FOLDER", other or tmp_path)
        if other is None:
            monkeypatch.setattr(os, "posix_fallocate", full)
        assert SharedSums.join(group) is None
    assert not list(tmp_path.iterdir())


def full(*_):
    raise OSError(28, "No space left on device")
