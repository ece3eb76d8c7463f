"""How the threads of replicas are laid out in the blocks and warps of a GPU."""

from __future__ import annotations

from dataclasses import dataclass

from warpdrive.kernels.errors import KernelError

LANES = 32
WARPS = 2
"""Warps of a block in which small replicas share warps: with two, as many blocks as a multiprocessor takes fill it, and
few replicas spread over many multiprocessors."""

MOST_THREADS = 1024


@dataclass(frozen=True)
class Layout:
    """``replicas_per_warp`` replicas share each of a block's ``warps``; 0: each replica has a block of its own."""

    agents: int
    replicas_per_warp: int
    warps: int

    @property
    def threads(self) -> int:
        """The threads of a block."""
        return LANES * self.warps if self.replicas_per_warp else self.agents

    def blocks(self, replicas: int) -> int:
        """Return how many blocks it takes for that many replicas."""
        return -(-replicas // (self.replicas_per_warp * self.warps or 1))


def packed(agents: int) -> Layout:
    """Return the layout for that many agents: packed for up to 32, else a replica per block.

    Raises :class:`KernelError` for more agents than a block has threads.
    """
    if agents > MOST_THREADS:
        raise KernelError(
            f"a replica has {agents} agents: kernel functions in CUDA C run on a block of at most {MOST_THREADS} "
            "threads, one for each agent; env_backend 'numba' and 'cpu' take any number"
        )
    return Layout(agents, LANES // agents, WARPS) if agents <= LANES else alone(agents)


def alone(agents: int) -> Layout:
    """Return the layout in which each replica has a block of its own."""
    return Layout(agents, 0, 1)
