"""The processes that train one run together, as what they do together; a process on its own is a team of one."""

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
    """Which of the replicas of a run a process has: ``count`` of ``total``, from the global index ``first`` on."""

    first: int
    count: int
    total: int

    @property
    def rows(self) -> slice:
        """Where they are among all."""
        return slice(self.first, self.first + self.count)

    def those_of(self, other: Share) -> slice:
        """Where among the replicas here those are that ``other`` has, too."""
        first = max(other.first - self.first, 0)
        return slice(first, max(first, min(other.first + other.count - self.first, self.count)))

    def __str__(self) -> str:
        if not self.count:
            return f"none of the {self.total} replicas"
        return f"replicas {self.first} to {self.first + self.count - 1} of {self.total}"


class Team:
    """What the processes of a run do together; as it is here, a process alone, where there is nothing to do.

    Methods but for :meth:`share` and :meth:`part` must be called by all processes, in the same order.

    Attributes:
        rank: the number of this process; process 0 leads: it alone logs and saves.
        size: how many processes there are.
    """

    rank = 0
    size = 1

    @classmethod
    def of(cls, rank: int, size: int) -> Team:
        """A process of a team of ``size`` that has not met, to ask what its share will be."""
        team = cls()
        team.rank, team.size = rank, size
        return team

    def __deepcopy__(self, memo: object) -> Team:
        """A copy of what belongs to a team belongs to the same one."""
        return self

    @property
    def leads(self) -> bool:
        """Whether this is process 0."""
        return self.rank == 0

    @property
    def message_seconds(self) -> float:
        """Seconds that messages have taken here so far, waiting for the other processes included; 0 for one alone.

        On a GPU they are by its own clock, and count once they are over.
        """
        return 0.0

    def share(self, num_envs: int, dedicated_learner: bool = False) -> Share:
        """The replicas of this process, of ``num_envs`` in all: the first processes have one more where it must be.

        With a ``dedicated_learner`` process 0 has none, unless it is alone.

        Raises:
            ConfigError: there are fewer replicas than processes.
        """
        first = int(dedicated_learner and self.size > 1)
        size, rank = self.size - first, self.rank - first
        if num_envs < size:
            raise ConfigError(
                f"trainer.num_envs: found {num_envs}, expected at least {size}: these are the replicas of all "
                f"processes together, and each of {size} processes has one or more"
            )
        if rank < 0:
            return Share(0, 0, num_envs)
        each, more = divmod(num_envs, size)
        return Share(rank * each + min(rank, more), each + (rank < more), num_envs)

    def part(self, count: int) -> slice:
        """Which of ``count`` things are for this process, where each gets as many as the others, give or take one."""
        return slice(self.rank * count // self.size, (self.rank + 1) * count // self.size)

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over all processes of a tensor that has the same shape everywhere; its memory is used for it."""
        return tensor

    def sum_gradient(self, gradient: Tensor, terms: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """The sums over all processes of the gradient of all parameters, a vector, and of scalars, in one message."""
        return gradient, dict(terms)

    def sum_all(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Sums over all processes of tensors that have the same shapes everywhere."""
        return dict(tensors)

    def gather(self, rows: Mapping[str, Tensor]) -> dict[str, Tensor] | None:
        """The rows of all processes in the order of their ranks, on process 0; None on the others.

        Args:
            rows: ``[rows, ...]`` of any dtypes, by name; every process has as many of each as it likes, also none.

        Raises:
            TeamError: names, dtypes or the shapes of rows differ between processes.
        """
        return dict(rows)

    def gather_everywhere(self, rows: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """As :meth:`gather`, but every process gets them."""
        return dict(rows)

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        """Make tensors those of process 0, bit for bit."""

    def broadcast_object(self, value: Any) -> Any:
        """What process 0 has given: anything that ``objects.encoded`` takes."""
        return value

    def gather_objects(self, value: Any) -> list[Any]:
        """What each process has given, in the order of their ranks: anything that ``objects.encoded`` takes."""
        return [value]

    def remember(self, name: str, text: str) -> None:
        """Let processes that take the place of these, when they are restarted, know something by its name."""

    def recall(self, name: str) -> str | None:
        """What process 0 of those who were here before wanted to be known; None: nothing."""
        return None

    def from_leader(self, function: Callable[[], T]) -> T:
        """What process 0 gets by calling ``function``, also if that raises: something that ``objects.encoded`` takes.

        Within :meth:`led` it is for process 0 alone.
        """
        return function()

    @contextmanager
    def together(self, name: str) -> Iterator[None]:
        """Around what all do at the same time, called ``name``: within :meth:`led`, process 0 says that it begins."""
        yield

    def led(self, run: Callable[[], T], follow: Callable[[str], object]) -> T:
        """Let process 0 decide what is done together.

        Args:
            run: called on process 0, whose ``together`` blocks within it are all that concerns the others.
            follow: called on the others for each of these blocks, with its name: has to come to the same block.

        Returns:
            what ``run`` returned, in all processes.

        Raises:
            TeamError: on the others, where ``run`` raises.
        """
        return run()

    @property
    def asked_to_stop(self) -> bool:
        """Whether one of the others was interrupted, by Ctrl-C or SIGTERM, and process 0 is to end the run."""
        return False

    @contextmanager
    def before_giving_up(self, tell: Callable[[str], object]) -> Iterator[None]:
        """Within the block ``tell`` is called, in another thread, with the reason why this process is to be ended."""
        yield

    def set_timeout(self, seconds: float) -> None:
        """Change how long processes wait for one that is alive."""

    def leave(self) -> None:
        """Take leave of the others: nothing is done together any more."""


ALONE = Team()


@torch.no_grad()
def tensors_of(modules: Iterable[torch.nn.Module]) -> list[Tensor]:
    """Parameters and persistent buffers of modules: what is learned, and is the same in all processes."""
    return [tensor.detach() for module in modules for tensor in module.state_dict(keep_vars=True).values()]


@dataclass(frozen=True)
class Spread:
    """Over which processes the rows are spread that an algorithm learns from: time x replica x agent, in that order.

    Attributes:
        team: of the processes.
        share: the replicas whose rows are here; None: all.
        agents: how many rows a replica has in a step.
    """

    team: Team = ALONE
    share: Share | None = None
    agents: int = 1

    def total(self, rows: int) -> int:
        """How many rows all processes have together, if this one has ``rows`` (or as many sequences)."""
        return rows if self.share is None else rows // self.share.count * self.share.total

    def own(self, index: Tensor) -> Tensor:
        """Of rows of all processes, those that are here, as they are numbered here.

        Args:
            index: ``[n]`` int64, rows over (time x) replica x agent of all replicas.

        Returns:
            ``[m]`` int64, in the order of ``index``; on a GPU the host waits to know how many they are.
        """
        if self.share is None:
            return index
        agent, step_and_replica = index % self.agents, index // self.agents
        step, replica = step_and_replica // self.share.total, step_and_replica % self.share.total - self.share.first
        with host_transfers_allowed():
            here = (replica >= 0) & (replica < self.share.count)
            return ((step * self.share.count + replica) * self.agents + agent)[here]


ALL_HERE = Spread()
