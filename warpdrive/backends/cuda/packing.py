"""How the agents of replicas lie on the threads of a GPU."""

from __future__ import annotations

from dataclasses import dataclass

from warpdrive.kernels.language import WARP

MOST_THREADS = 1024
"""Threads that a block has at most on every GPU (CUDA programming guide, technical specifications)."""

WARPS = 2
"""Warps of a block in which small replicas share warps: with two, as many blocks as a multiprocessor takes fill it (32
of 64 threads), and few replicas spread over many multiprocessors."""

MOST_SHARED_BYTES = 48 * 1024
"""Shared memory that a block may declare on every GPU (CUDA programming guide, technical specifications)."""


@dataclass(frozen=True)
class Packing:
    """What a block of the GPU holds.

    Up to 32 agents, as many whole replicas as fit lie side by side in each warp. A replica with up to 1024 agents has a
    block for itself, and so has one whose shared memory leaves no room for others. With more, each of the block's
    threads does the work of ``rounds`` agents in turn.

    Attributes:
        agents: the agents of a replica: the threads of the block that the author sees.
        threads: the threads of a block on the GPU.
        replicas_per_warp: how many replicas share a warp; 0 where a replica has a block for itself.
        rounds: how many agents a thread stands for at most.
    """

    agents: int
    threads: int
    replicas_per_warp: int = 0
    rounds: int = 1

    @staticmethod
    def of(agents: int, shared_bytes: int = 0) -> Packing:
        """Return the packing for replicas of so many agents, and so many bytes of shared memory each."""
        if agents > WARP:
            return Packing.alone(agents)
        replicas_per_warp = WARP // agents
        room = MOST_SHARED_BYTES // (replicas_per_warp * max(shared_bytes, 1))
        return Packing(agents, min(room, WARPS) * WARP, replicas_per_warp) if room else Packing.alone(agents)

    @staticmethod
    def alone(agents: int) -> Packing:
        """Return the packing in which each replica has a block for itself."""
        rounds = -(-agents // MOST_THREADS)
        if rounds == 1:
            return Packing(agents, agents)
        warps = -(-agents // (rounds * WARP))  # no more than are needed for that many rounds
        return Packing(agents, warps * WARP, rounds=rounds)

    @property
    def replicas_per_block(self) -> int:
        """How many replicas a block holds."""
        return self.replicas_per_warp * (self.threads // WARP) or 1

    def blocks(self, replicas: int) -> int:
        """Return how many blocks so many replicas take."""
        return -(-replicas // self.replicas_per_block)
