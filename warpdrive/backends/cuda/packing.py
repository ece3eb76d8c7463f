"""Assignment of the agents of replicas to the threads of a GPU.

Up to 32 agents, replicas are side by side in a warp and their barriers are a ``syncwarp`` of their lanes; with more
than 1024 agents, each thread of a block runs several agents between two barriers.
"""

from __future__ import annotations

from dataclasses import dataclass

from warpdrive.kernels.language import WARP

MAX_THREADS = 1024
"""Maximum number of threads per block on every GPU (CUDA programming guide, technical specifications)."""

WARPS = 2
"""Number of warps per block if small replicas share warps.

With two, the maximum number of resident blocks fills a multiprocessor (32 of 64 threads), and few replicas spread over
many multiprocessors.
"""

MAX_SHARED_BYTES = 48 * 1024
"""Shared memory that a block may declare on every GPU (CUDA programming guide, technical specifications)."""


@dataclass(frozen=True)
class Packing:
    """Number of replicas and agents in a block of the GPU.

    Replicas of up to 32 agents share warps: each warp has as many whole replicas as fit. A replica with up to 1024
    agents has a separate block, as does one whose shared memory leaves no room for further replicas. With more agents,
    each thread of the block runs up to ``rounds`` agents in turn.

    Attributes:
        agents: Agents of a replica: the threads per block in the author's view.
        threads: Threads per block on the GPU.
        replicas_per_warp: Replicas that share a warp; 0 if a replica has a block for itself.
        rounds: Maximum number of agents per thread.
    """

    agents: int
    threads: int
    replicas_per_warp: int = 0
    rounds: int = 1

    @staticmethod
    def of(agents: int, shared_bytes: int = 0) -> Packing:
        """Return the packing for replicas with this many agents and bytes of shared memory each."""
        if agents > WARP:
            return Packing.unshared(agents)
        replicas_per_warp = WARP // agents
        room = MAX_SHARED_BYTES // (replicas_per_warp * max(shared_bytes, 1))
        return Packing(agents, min(room, WARPS) * WARP, replicas_per_warp) if room else Packing.unshared(agents)

    @staticmethod
    def unshared(agents: int) -> Packing:
        """Return the packing in which each replica has a block for itself."""
        rounds = -(-agents // MAX_THREADS)
        if rounds == 1:
            return Packing(agents, agents)
        warps = -(-agents // (rounds * WARP))  # the minimum for this number of rounds
        return Packing(agents, warps * WARP, rounds=rounds)

    @property
    def replicas_per_block(self) -> int:
        """Number of replicas in a block."""
        return self.replicas_per_warp * (self.threads // WARP) or 1

    def blocks(self, replicas: int) -> int:
        """Return the number of blocks for this many replicas."""
        return -(-replicas // self.replicas_per_block)
