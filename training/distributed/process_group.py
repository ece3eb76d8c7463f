"""Process group of a run and its collectives; a single process is a group of one.

Rank 0 leads: it alone runs ``run/loop.py``. Operations that involve other ranks (``collect``, ``update``,
``episode_statistics``, ``checkpoint``) are blocks of ``process_group.collective(name)``, which rank 0 announces and
the others then enter. Logging, callbacks, evaluation and interrupts need no code for several processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from warpdrive.errors import ConfigError
from warpdrive.host_transfers import host_transfers_allowed

T = TypeVar("T")


@dataclass(frozen=True)
class Share:
    """Range of a process's replicas: ``count`` of ``total``, from the global index ``first`` on."""

    first: int
    count: int
    total: int

    @property
    def rows(self) -> slice:
        """Slice of this process's replicas among all."""
        return slice(self.first, self.first + self.count)

    def overlap_with(self, other: Share) -> slice:
        """Return the slice of these replicas that ``other`` also has."""
        first = max(other.first - self.first, 0)
        return slice(first, max(first, min(other.first + other.count - self.first, self.count)))

    def __str__(self) -> str:
        if not self.count:
            return f"none of the {self.total} replicas"
        return f"replicas {self.first} to {self.first + self.count - 1} of {self.total}"


class ProcessGroup:
    """Process group and its collectives; this base class is a single process, for which they do nothing.

    All methods except :meth:`share` and :meth:`part` must be called by all processes, in the same order.

    Attributes:
        rank: Rank of this process; rank 0 is the leader: it alone logs and saves.
        world_size: Number of processes.
    """

    rank = 0
    world_size = 1

    @classmethod
    def of(cls, rank: int, size: int) -> ProcessGroup:
        """Return a member of a group of ``size`` before the rendezvous, to compute its share."""
        process_group = cls()
        process_group.rank, process_group.world_size = rank, size
        return process_group

    def __deepcopy__(self, memo: object) -> ProcessGroup:
        """Return the same object: copied objects belong to the same group."""
        return self

    @property
    def is_leader(self) -> bool:
        """True on rank 0."""
        return self.rank == 0

    @property
    def leads(self) -> bool:
        """Former name of :attr:`is_leader`."""
        return self.is_leader

    @property
    def size(self) -> int:
        """Former name of :attr:`world_size`."""
        return self.world_size

    @property
    def communication_seconds(self) -> float:
        """Seconds spent in collectives so far, including waiting for other processes; 0 for a single process.

        On a GPU it is measured by events, and counted once they have completed.
        """
        return 0.0

    def share(self, num_envs: int, dedicated_learner: bool = False) -> Share:
        """Return the replicas of this process, of ``num_envs`` in total; the first ranks have one more if necessary.

        With a ``dedicated_learner`` rank 0 has none, unless it is alone.

        Raises:
            ConfigError: If there are fewer replicas than processes.
        """
        first = int(dedicated_learner and self.world_size > 1)
        size, rank = self.world_size - first, self.rank - first
        if num_envs < size:
            raise ConfigError(
                f"trainer.num_envs: found {num_envs}, expected at least {size}: it counts the replicas of all "
                f"processes, and each of {size} processes needs at least one"
            )
        if rank < 0:
            return Share(0, 0, num_envs)
        each, more = divmod(num_envs, size)
        return Share(rank * each + min(rank, more), each + (rank < more), num_envs)

    def part(self, count: int) -> slice:
        """Return this process's slice of ``count`` items, split as evenly as possible."""
        return slice(self.rank * count // self.world_size, (self.rank + 1) * count // self.world_size)

    def all_reduce(self, tensor: Tensor) -> Tensor:
        """Return the sum over all processes of a tensor of the same shape everywhere; its memory is overwritten."""
        return tensor

    def all_reduce_gradient(self, gradient: Tensor, terms: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the sums over all processes of the gradient vector and of scalars, in one message."""
        return gradient, dict(terms)

    def all_reduce_tensors(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the sums over all processes of tensors of the same shapes everywhere."""
        return dict(tensors)

    def gather(self, rows: Mapping[str, Tensor]) -> dict[str, Tensor] | None:
        """Return the rows of all processes in the order of their ranks, on rank 0; None on other ranks.

        Args:
            rows: ``[rows, ...]`` of any dtypes, by name; the number of rows may differ between processes, and be 0.

        Raises:
            TeamError: If names, dtypes or shapes of rows differ between processes.
        """
        return dict(rows)

    def all_gather(self, rows: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the result of :meth:`gather` on every rank."""
        return dict(rows)

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        """Overwrite tensors with those of rank 0."""

    def broadcast_object(self, value: Any) -> Any:
        """Return the value of rank 0: anything that ``objects.encoded`` supports."""
        return value

    def all_gather_values(self, value: Any) -> list[Any]:
        """Return the values of all processes, by rank: anything that ``objects.encoded`` supports."""
        return [value]

    def store_text(self, name: str, text: str) -> None:
        """Store a text by name for processes that replace these after a restart."""

    def load_text(self, name: str) -> str | None:
        """Return the text that rank 0 stored before a restart; None if there is none."""
        return None

    def call_on_leader(self, function: Callable[[], T]) -> T:
        """Call ``function`` on rank 0 and return its result, or raise its exception, on all ranks.

        The result is something that ``objects.encoded`` supports. Within :meth:`run_on_leader` only rank 0 takes part.
        """
        return function()

    @contextmanager
    def collective(self, name: str) -> Iterator[None]:
        """Run a block that all processes enter together; within :meth:`run_on_leader` rank 0 announces its ``name``."""
        yield

    def run_on_leader(self, run: Callable[[], T], follow: Callable[[str], object]) -> T:
        """Call ``run`` on rank 0, and the collective operations that it announces on the other ranks.

        Args:
            run: Called on rank 0; only its ``collective`` blocks involve the other ranks.
            follow: Called on the other ranks for each of these blocks, with its name: must enter the same block.

        Returns:
            The result of ``run``, on all ranks.

        Raises:
            TeamError: On the other ranks, if ``run`` raises.
        """
        return run()

    @property
    def stop_requested(self) -> bool:
        """True if another process was interrupted, by Ctrl-C or SIGTERM, and rank 0 is to end the run."""
        return False

    @contextmanager
    def on_abort(self, tell: Callable[[str], object]) -> Iterator[None]:
        """Within the block, call ``tell`` with the reason in another thread before this process is ended."""
        yield

    def set_timeout(self, seconds: float) -> None:
        """Set the time that processes wait for one that is alive."""

    def leave(self) -> None:
        """Leave the process group: no collectives follow."""


SINGLE_PROCESS = ProcessGroup()


@torch.no_grad()
def tensors_of(modules: Iterable[torch.nn.Module]) -> list[Tensor]:
    """Return parameters and persistent buffers of modules, which are equal in all processes."""
    return [tensor.detach() for module in modules for tensor in module.state_dict(keep_vars=True).values()]


@dataclass(frozen=True)
class Sharding:
    """Distribution over processes of the rows of an algorithm: time x replica x agent, in that order.

    Attributes:
        process_group: Process group.
        share: Range of the replicas whose rows are local; None: all.
        agents: Number of rows per replica and step.
    """

    process_group: ProcessGroup = SINGLE_PROCESS
    share: Share | None = None
    agents: int = 1

    def total(self, rows: int) -> int:
        """Return the number of rows (or sequences) of all processes, if this one has ``rows``."""
        return rows if self.share is None else rows // self.share.count * self.share.total

    def own(self, index: Tensor) -> Tensor:
        """Return the local indices of those global rows that are on this process.

        Args:
            index: ``[n]`` int64, rows over (time x) replica x agent of all replicas.

        Returns:
            ``[m]`` int64, in the order of ``index``; on a GPU the host synchronises to know their number.
        """
        if self.share is None:
            return index
        agent, step_and_replica = index % self.agents, index // self.agents
        step, replica = step_and_replica // self.share.total, step_and_replica % self.share.total - self.share.first
        with host_transfers_allowed():
            here = (replica >= 0) & (replica < self.share.count)
            return ((step * self.share.count + replica) * self.agents + agent)[here]


UNSHARDED = Sharding()
