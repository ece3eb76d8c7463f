"""Process group of ``torch.distributed``: gloo for tensors on the CPU, nccl for those on GPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from warpdrive.errors import TeamError, WarpDriveError
from warpdrive.training.distributed.folder_store import Store
from warpdrive.training.distributed.heartbeat import INTERRUPTED, Heartbeat
from warpdrive.training.distributed.objects import decoded, encoded
from warpdrive.training.distributed.packing import Layout, difference, hash_of, layout_of, packed, size_of, unpacked
from warpdrive.training.distributed.process_group import ProcessGroup
from warpdrive.training.distributed.shared_sums import SharedSums
from warpdrive.training.runtime.interrupts import on_signal
from warpdrive.training.runtime.timing import Stopwatch

_END = "end"
_HOST = torch.device("cpu")
_TEXT_PREFIX = "warpdrive/remember/"
T = TypeVar("T")


class TorchProcessGroup(ProcessGroup):
    """Several processes after their rendezvous.

    Args:
        rank: Rank of this process.
        size: Number of processes.
        heartbeat: Failure detector.
        store: Rendezvous store.

    Attributes:
        traffic: Bytes sent by this process so far, by kind: ``"gradients"``, ``"sums"``, ``"experience"``,
            ``"weights"``, ``"orders"``.
        shared: Sums in shared memory; None: processes are on several machines, or there is none.
    """

    def __init__(self, rank: int, size: int, heartbeat: Heartbeat, store: Store) -> None:
        self.rank, self.world_size, self.heartbeat, self._store = rank, size, heartbeat, store
        self.traffic: Counter[str] = Counter()
        self.shared: SharedSums | None = None
        self._stopwatch = Stopwatch()
        self._known: dict[int, Layout] = {}
        self._leading = False
        self._torn = False

    @property
    def messages(self) -> int:
        """Number of collectives that this process has taken part in."""
        return self.heartbeat.num_collectives

    @property
    def communication_seconds(self) -> float:
        """See ``ProcessGroup``."""
        return self._stopwatch.seconds()

    def all_reduce(self, tensor: Tensor) -> Tensor:
        """See ``ProcessGroup``."""
        return self._sum_in_place(tensor, "sums")

    def all_reduce_gradient(self, gradient: Tensor, terms: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """See ``ProcessGroup``."""
        scalars = list(terms.values())
        flat = self._sum_in_place(torch.cat([gradient, torch.stack(scalars)]) if terms else gradient, "gradients")
        summed, *parts = flat.split([len(gradient), *[1] * len(scalars)])
        return summed, {name: part.squeeze(0) for name, part in zip(terms, parts, strict=True)}

    def all_reduce_tensors(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """See ``ProcessGroup``. Sums are computed in float64, which represents every count exactly."""
        flat = self._sum_in_place(torch.cat([tensor.reshape(-1).double() for tensor in tensors.values()]), "sums")
        parts = flat.split([tensor.numel() for tensor in tensors.values()])
        return {
            name: part.view(tensor.shape).to(tensor.dtype)
            for (name, tensor), part in zip(tensors.items(), parts, strict=True)
        }

    def gather(self, rows: Mapping[str, Tensor]) -> dict[str, Tensor] | None:
        """See ``ProcessGroup``."""
        layouts = self._layouts(rows)
        own = packed(rows)
        device = own.device
        if device.type == "cuda" and "cuda:nccl" not in dist.get_backend_config():
            own = own.cpu()  # gloo sends from the host only
        self.traffic["experience"] += own.nbytes
        if not self.is_leader:
            if len(own):
                with self._collective(own.device):
                    dist.send(own, 0)
            return None
        memories = [own if rank == 0 else own.new_empty(size_of(layout)) for rank, layout in enumerate(layouts)]
        with self._collective(own.device):
            arrivals = [dist.irecv(memory, rank) for rank, memory in enumerate(memories) if rank and len(memory)]
            for arrival in arrivals:
                assert arrival is not None
                arrival.wait()
        return _together([memory.to(device) for memory in memories], layouts)

    def all_gather(self, rows: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """See ``ProcessGroup``."""
        layouts = self._layouts(rows)
        own = packed(rows)
        self.traffic["experience"] += own.nbytes
        sizes = [size_of(layout) for layout in layouts]
        padded = own.new_zeros(max(sizes))
        padded[: len(own)] = own
        memories = [torch.empty_like(padded) for _ in layouts]
        with self._collective(own.device):
            dist.all_gather(memories, padded)
        return _together([memory[:size] for memory, size in zip(memories, sizes, strict=True)], layouts)

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        """See ``ProcessGroup``. Uses one message."""
        if not tensors:
            return
        flat = packed({f"{number:06}": tensor for number, tensor in enumerate(tensors)})
        self.traffic["weights"] += flat.nbytes if self.is_leader else 0
        with self._collective(flat.device):
            dist.broadcast(flat, 0)
        if not self.is_leader:
            layout = layout_of({f"{number:06}": tensor for number, tensor in enumerate(tensors)})
            for tensor, sent in zip(tensors, unpacked(flat, layout).values(), strict=True):
                tensor.copy_(sent)

    def broadcast_object(self, value: Any) -> Any:
        """See ``ProcessGroup``."""
        letters = encoded(value) if self.is_leader else torch.zeros(0, dtype=torch.uint8)
        length = torch.tensor([len(letters)])
        with self._collective(_HOST):
            dist.broadcast(length, 0)
            if not self.is_leader:
                letters = torch.zeros(int(length), dtype=torch.uint8)
            dist.broadcast(letters, 0)
        return value if self.is_leader else decoded(letters)

    def all_gather_values(self, value: Any) -> list[Any]:
        """See ``ProcessGroup``."""
        if self._leading:
            raise TeamError(
                "only process 0 reached this point, perhaps in a callback, and would wait for the others forever: "
                "create a Trainer in all processes, before or after training"
            )
        own = encoded(value)
        lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(self.world_size)]
        with self._collective(_HOST):
            dist.all_gather(lengths, torch.tensor([len(own)]))
            padded = own.new_zeros(max(int(length) for length in lengths))
            padded[: len(own)] = own
            letters = [torch.empty_like(padded) for _ in lengths]
            dist.all_gather(letters, padded)
        return [decoded(each[: int(length)]) for each, length in zip(letters, lengths, strict=True)]

    def store_text(self, name: str, text: str) -> None:
        """See ``ProcessGroup``."""
        self._store.set(_TEXT_PREFIX + name, text)

    def load_text(self, name: str) -> str | None:
        """See ``ProcessGroup``."""
        return self.broadcast_object(loaded_text(self._store, name) if self.is_leader else None)  # type: ignore[no-any-return]

    def call_on_leader(self, function: Callable[[], T]) -> T:
        """See ``ProcessGroup``."""
        if self._leading:  # the other ranks wait for an announced block
            return function()
        outcome: tuple[Any, WarpDriveError | None] = (None, None)
        if self.is_leader:
            try:
                outcome = (function(), None)
            except WarpDriveError as error:
                outcome = (None, error)
        value, failure = self.broadcast_object(outcome)
        if failure is not None:
            raise failure
        return value  # type: ignore[no-any-return]

    @contextmanager
    def collective(self, name: str) -> Iterator[None]:
        """See ``ProcessGroup``."""
        announces = self._leading
        try:
            if announces:
                self._order(name)
                self._leading = False  # nested blocks are not announced
            yield
        except BaseException as error:
            self._torn = True  # the ranks are out of step
            if isinstance(error, KeyboardInterrupt):
                self.heartbeat.stop(INTERRUPTED)
            else:
                self.heartbeat.fail(_in_words(error))
            raise
        finally:
            self._leading = announces

    def run_on_leader(self, run: Callable[[], T], follow: Callable[[str], object]) -> T:
        """See ``ProcessGroup``."""
        if not self.is_leader:
            with on_signal(lambda _: self.heartbeat.request_stop()):  # rank 0 decides about Ctrl-C
                while (name := self._order("")) != _END:
                    follow(name)
                result, failure = self.broadcast_object(None)
            if failure:
                raise TeamError(f"{self.heartbeat.name_of(0)} failed: {failure}")
            return result  # type: ignore[no-any-return]
        outcome: tuple[Any, str] = (None, "it was interrupted")
        self._leading = True
        try:
            outcome = run(), ""
            return outcome[0]
        except Exception as error:
            outcome = None, _in_words(error)
            raise
        finally:
            self._leading = False
            if not self._torn:
                self._order(_END)
                self.broadcast_object(outcome)

    @property
    def stop_requested(self) -> bool:
        """See ``ProcessGroup``."""
        return self.heartbeat.stop_requested

    @contextmanager
    def on_abort(self, tell: Callable[[str], object]) -> Iterator[None]:
        """See ``ProcessGroup``."""
        former, self.heartbeat.on_abort = self.heartbeat.on_abort, tell
        try:
            yield
        finally:
            self.heartbeat.on_abort = former

    def set_timeout(self, seconds: float) -> None:
        """See ``ProcessGroup``."""
        self.heartbeat.timeout = seconds

    def leave(self) -> None:
        """See ``ProcessGroup``."""
        self.heartbeat.end()
        if dist.is_initialized():
            dist.destroy_process_group()

    def _sum_in_place(self, tensor: Tensor, what: str) -> Tensor:
        """All-reduce a tensor in place; the result is bitwise equal on all ranks."""
        self.traffic[what] += tensor.nbytes
        with self._collective(tensor.device):
            if self.shared is not None and self.shared.can_sum(tensor):
                self.shared.all_reduce(tensor)
            else:
                dist.all_reduce(tensor)
        return tensor

    @contextmanager
    def _collective(self, device: torch.device) -> Iterator[None]:
        """Time and watch a collective on tensors of a device, within the block; the host does not wait for a GPU."""
        with self._stopwatch.timing(device), self.heartbeat.in_collective(_arrival if device.type == "cuda" else None):
            yield

    def _order(self, name: str) -> str:
        """Broadcast a name of at most 63 bytes from rank 0."""
        letters = torch.tensor(list(name.encode().ljust(63, b"\0")), dtype=torch.uint8)
        self.traffic["orders"] += letters.nbytes if self.is_leader else 0
        with self._collective(_HOST):
            dist.broadcast(letters, 0)
        return bytes(letters.tolist()).rstrip(b"\0").decode()

    def _layouts(self, rows: Mapping[str, Tensor]) -> list[Layout]:
        """Return the layouts of the rows of all processes."""
        layout = layout_of(rows)
        own = torch.tensor([hash_of(layout)])
        hashes = [torch.empty_like(own) for _ in range(self.world_size)]
        with self._collective(_HOST):
            dist.all_gather(hashes, own)
        keys = [int(key) for key in hashes]
        if not self._known.keys() >= set(keys):  # equal on all ranks, which have seen the same layouts
            self._known |= zip(keys, self.all_gather_values(layout), strict=True)
        layouts = [self._known[key] for key in keys]
        for rank, layout in enumerate(layouts):
            wrong = difference(layouts[0], layout)
            if wrong:
                raise TeamError(f"gather: the values of rank 0 and rank {rank} are incompatible: {wrong}")
        return layouts


def loaded_text(store: Store, name: str) -> str | None:
    """Return the text stored by :meth:`TorchProcessGroup.store_text`; None if there is none."""
    key = _TEXT_PREFIX + name
    return store.get(key).decode() if store.check([key]) else None


def _arrival() -> Callable[[], bool]:
    event = torch.cuda.Event()
    event.record()
    return event.query


def _in_words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _together(memories: Sequence[Tensor], layouts: Sequence[Layout]) -> dict[str, Tensor]:
    parts = [unpacked(memory, layout) for memory, layout in zip(memories, layouts, strict=True)]
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
