"""Sums over the processes of one machine in shared memory.

A message of gloo wakes threads, which wait for cores that are busy with training. Here each process writes its part,
waits for the parts of the other processes, and sums all in the order of the ranks, so that the results are bitwise
equal. There are two buffers, used alternately: before a process overwrites one, all processes have entered the sum in
between, and thus read it.
"""

from __future__ import annotations

import mmap
import os
import platform
import select
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from warpdrive.training.distributed.process_group import ProcessGroup

MAX_BYTES = 1 << 20
"""Size of the largest tensor that is summed in shared memory."""

PREFIX = "warpdrive-sums-"
"""Prefix of the names of files while processes join."""

_FOLDER = Path("/dev/shm")  # in memory
_PAGE = 4096
_LINE = 64  # bytes of a cache line: each process's counter has one
_SPINS, _YIELDS = 100, 2000  # looks before a wait is long
_PAUSE, _LONGEST_PAUSE = 1e-4, 2e-3  # seconds between looks of a long wait, less than a hundredth of it from 0.1 s on


class SharedSums:
    """Sums of tensors in memory shared by all processes of a group.

    Args:
        file: File of :func:`_size` bytes that all processes map.
        rank: Rank of this process.
        process_ids: Process ids, by rank.

    Raises:
        OSError: If a process is not there, or is not visible from here.
    """

    def __init__(self, file: int, rank: int, process_ids: list[int]) -> None:
        self.rank, self.world_size = rank, len(process_ids)
        memory = mmap.mmap(file, _size(self.world_size))
        counters = np.frombuffer(memory, np.int64, _PAGE // 8)
        self._arrived = counters[: self.world_size * _LINE // 8 : _LINE // 8]
        places = torch.frombuffer(memory, dtype=torch.uint8, offset=_PAGE)
        self._places = places.view(2, self.world_size, MAX_BYTES)
        self._count = 0
        self._peers = select.poll()
        for other, process_id in enumerate(process_ids):
            if other != rank:
                self._peers.register(os.pidfd_open(process_id), select.POLLIN)  # readable once it has ended

    @classmethod
    def join(cls, process_group: ProcessGroup) -> SharedSums | None:
        """Return the sums of a group whose processes are on one machine; None where there is no shared memory.

        All processes must call it. No file remains afterwards.
        """
        process_ids = process_group.all_gather_values(os.getpid())
        name = process_group.broadcast_object(_allocated(len(process_ids)) if process_group.is_leader else None)
        found = None
        if name:
            with suppress(OSError):
                file = os.open(name, os.O_RDWR)
                try:
                    found = cls(file, process_group.rank, process_ids)
                finally:
                    os.close(file)
        everywhere = all(process_group.all_gather_values(found is not None))
        if name and process_group.is_leader:
            os.unlink(name)
        return found if everywhere else None

    def can_sum(self, tensor: Tensor) -> bool:
        """Return True if a tensor, of the same shape in all processes, can be summed here."""
        return tensor.device.type == "cpu" and tensor.is_contiguous() and tensor.nbytes <= MAX_BYTES

    def all_reduce(self, tensor: Tensor) -> None:
        """Overwrite a tensor with its sum over all processes.

        Raises:
            RuntimeError: If a process has ended.
        """
        parts = self._places[self._count % 2, :, : tensor.nbytes].view(tensor.dtype)
        parts[self.rank].copy_(tensor.view(-1))
        self._count += 1
        self._arrived[self.rank] = self._count
        self._await_all()
        torch.sum(parts, 0, dtype=tensor.dtype, out=tensor.view(-1))

    def _await_all(self) -> None:
        looks = 0
        while self._arrived.min() < self._count:
            looks += 1
            if looks > _SPINS + _YIELDS:
                if self._peers.poll(0) and self._arrived.min() < self._count:
                    raise RuntimeError("a process has ended")
                time.sleep(min(max(_PAUSE, _PAUSE / 100 * (looks - _SPINS - _YIELDS)), _LONGEST_PAUSE))
            elif looks > _SPINS:
                os.sched_yield()


def _size(world_size: int) -> int:
    return _PAGE + 2 * world_size * MAX_BYTES


def _allocated(world_size: int) -> str | None:
    """Return the name of a new file in memory; None if there is none, or not all processors see stores in order."""
    if sys.platform != "linux" or platform.machine() != "x86_64" or world_size * _LINE > _PAGE:
        return None
    try:
        file, name = tempfile.mkstemp(prefix=PREFIX, dir=_FOLDER)
        try:
            os.posix_fallocate(file, 0, _size(world_size))  # rather than a signal later, if the memory is not there
        except OSError:
            os.unlink(name)
            return None
        finally:
            os.close(file)
    except OSError:
        return None
    return name
