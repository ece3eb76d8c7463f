from __future__ import annotations

import pytest

from warpdrive.backends.cuda.packing import Packing


@pytest.mark.parametrize(
    ("agents", "expected"),
    [
        (1, Packing(1, 64, 32)),
        (5, Packing(5, 64, 6)),
        (16, Packing(16, 64, 2)),
        (17, Packing(17, 64, 1)),
        (32, Packing(32, 64, 1)),
        (33, Packing(33, 33)),
        (1024, Packing(1024, 1024)),
        (1025, Packing(1025, 544, rounds=2)),
        (3000, Packing(3000, 1024, rounds=3)),
    ],
)
def test_packings_worked_out_by_hand(agents, expected):
    assert Packing.of(agents) == expected


@pytest.mark.parametrize(
    ("agents", "shared_bytes", "expected"),
    [
        (5, 4096, Packing(5, 64, 6)),  # 12 replicas take all of the 48 KiB
        (5, 4112, Packing(5, 32, 6)),
        (5, 8192, Packing(5, 32, 6)),
        (5, 8208, Packing(5, 5)),
        (32, 48 * 1024, Packing(32, 32, 1)),
        (110, 40_000, Packing(110, 110)),
    ],
)
def test_shared_memory_of_all_replicas_fits_into_a_block(agents, shared_bytes, expected):
    assert Packing.of(agents, shared_bytes) == expected


@pytest.mark.parametrize("agents", [*range(1, 41), 64, 110, 1000, 1023, 1024, 1025, 2048, 2049, 3000, 10_000])
def test_every_agent_has_a_thread_and_blocks_fit_a_gpu(agents):
    packing = Packing.of(agents)
    assert packing.threads <= 1024
    assert packing.threads * packing.rounds >= agents * packing.replicas_per_block
    assert packing.replicas_per_warp * agents <= 32
    for replicas in (1, 2, 31, 32, 33, 1000):
        assert packing.blocks(replicas) * packing.replicas_per_block >= replicas
        assert (packing.blocks(replicas) - 1) * packing.replicas_per_block < replicas


def test_warps_run_full_where_agents_allow_it():
    for agents in range(1, 33):
        packing = Packing.of(agents)
        assert 32 - packing.replicas_per_warp * agents < agents
