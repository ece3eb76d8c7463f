"""GPU code does what CPU code does, however replicas lie on a GPU's threads.

It is run on the CPU, thread of the GPU by thread of the GPU (see ``lanes.py``), and compared with the CPU backend.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from lanes import Lanes
from numba import cuda

import warpdrive as wd
from warpdrive.backends.cpu import CpuBackend
from warpdrive.kernels.fusion import Fusion


def test_two_agents_for_each_thread():
    """``tests/envs/test_state_hashes.py`` has an agent for each thread, and several replicas in a warp."""
    env = wd.make("tag_gridworld", num_taggers=1099, use_full_observation=False)
    envs = [wd.EnvWrapper(env, 2, backend) for backend in ("cpu", Lanes())]
    rollouts = [env.allocate_rollout(12) for env in envs]
    for _ in range(12):
        for env, rollout in zip(envs, rollouts, strict=True):
            env.step_rollout(rollout)
    for array in envs[0].ctx.state_names:
        ours, expected = (env.ctx[array].numpy() for env in envs[::-1])
        np.testing.assert_array_equal(ours, expected, err_msg=array)
    for array in ("observations", "actions", "rewards", "log_probabilities", "final_slot"):
        ours, expected = (getattr(rollout, array).numpy() for rollout in rollouts[::-1])
        np.testing.assert_array_equal(ours, expected, err_msg=array)


@wd.device_function
def total_so_far(x, env, agent):
    """A function with a barrier that some leave before it."""
    if x[env, agent] < 0:
        return -1
    cuda.syncthreads()
    total = 0
    for other in range(agent + 1):
        total += abs(x[env, other])
    return total


@wd.kernel
def early_returns(x, out, num_agents):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    sums = cuda.shared.array(2, np.int32)
    for i in range(agent, 2, num_agents):
        sums[i] = 0
    cuda.syncthreads()
    cuda.atomic.add(sums, x[env, agent] % 2, x[env, agent])
    mine = total_so_far(x, env, agent)
    cuda.syncthreads()
    x[env, agent] = mine + sums[(x[env, agent] + 1) % 2]
    cuda.syncthreads()
    neighbour = x[env, (agent + 1) % num_agents]
    if agent % 3 == 1:
        return
    cuda.syncthreads()
    x[env, agent] = neighbour
    cuda.syncthreads()
    out[env, agent] = x[env, (agent + 2) % num_agents]


@wd.kernel
def loops(x, out, num_agents):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    kept = cuda.local.array(3, np.int32)
    for i in range(3):
        kept[i] = x[env, agent] + i
    rounds = abs(x[env, agent]) % 4  # another number for each agent
    while rounds > 0:
        value = x[env, (agent + rounds) % num_agents]
        cuda.syncthreads()
        x[env, agent] += value % 7
        kept[rounds % 3] += value
        cuda.syncthreads()
        if x[env, agent] % 5 == 0:
            break
        rounds -= 1
    steps = 0
    while cuda.syncthreads_or(x[env, agent] > 3):
        x[env, agent] //= 2
        steps += 1
    total = cuda.syncthreads_count(kept[1] % 2) + 1000 * cuda.syncthreads_and(kept[0] > -1000)
    for turn in range(2):
        mirrored = x[env, num_agents - 1 - agent] + turn
        cuda.syncthreads()
        x[env, agent] = mirrored
        cuda.syncthreads()
    out[env, agent] = x[env, agent] + steps + total + kept[0] + kept[2]


@wd.kernel
def reduction(x, out, num_agents):
    env, agent, width = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    largest = cuda.shared.array(1, np.float32)
    if agent == 0:
        largest[0] = np.float32(-1.0)
    cuda.syncthreads()
    cuda.atomic.max(largest, 0, np.float32(x[env, agent]))
    cuda.syncthreads()
    if largest[0] > 3:
        cuda.syncthreads()  # the same for all, though that cannot be seen
        x[env, agent] = x[env, agent] + cuda.gridDim.x
        cuda.syncthreads()
    out[env, agent] = np.int32(largest[0] * math.sqrt(np.float32(width))) + x[env, (agent * 7) % num_agents]


@wd.kernel
def types_change(x, out, num_agents):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    n = x[env, agent] + 2**53
    if agent % 3 == 1:
        n = 0.5
        out[env, agent] = n * 4
        return
    cuda.syncthreads()
    out[env, agent] = n % 1000  # float64 has but the even ones
    n = x[env, (agent + 2) % num_agents] > 3
    cuda.syncthreads()
    out[env, agent] += 1000 * ~n


CASES = [(loops, n) for n in (1, 5, 33, 3000)]
CASES += [(kernel, n) for kernel in (early_returns, reduction) for n in (1, 5, 32, 33, 3000)]
CASES += [(types_change, n) for n in (5, 3000)]
USUAL = ((loops, 33), (early_returns, 3000), (reduction, 33), (types_change, 3000))
"""Those in `make test`: with one agent more than a warp, and more agents than a block, has threads."""
MARK = pytest.mark.exhaustive


@pytest.mark.parametrize("kernel", [early_returns, loops, reduction], ids=lambda kernel: kernel.__name__)
def test_the_kernels_of_this_test_have_no_races(kernel):
    x = np.random.default_rng(0).integers(-5, 40, (2, 7)).astype(np.int32)
    report = wd.check_launch(kernel, 2, 7, x, np.zeros_like(x), np.int32(7))
    assert not report.races + report.bounds + report.uninitialised + report.order, str(report)


@pytest.mark.parametrize(
    ("agents", "kernel"),
    [
        pytest.param(n, kernel, id=f"{kernel.__name__}-{n}", marks=() if (kernel, n) in USUAL else MARK)
        for kernel, n in CASES
    ],
)
def test_barriers_mean_what_the_author_wrote(kernel, agents):
    replicas = 70 if agents < 20 else 3
    x = np.random.default_rng(agents).integers(-5, 40, (replicas, agents)).astype(np.int32)
    if kernel is types_change:
        x = x.astype(np.int64)
    results = []
    for backend in (CpuBackend(), Lanes()):
        out = torch.zeros(replicas, agents, dtype=torch.int32)
        arguments = {"x": torch.from_numpy(x.copy()), "out": out, "num_agents": np.int32(agents)}
        backend.bind(Fusion.of(kernel), arguments, replicas, agents)()
        results.append(out.numpy())
    np.testing.assert_array_equal(*results)
    assert len(np.unique(results[0])) > 1
