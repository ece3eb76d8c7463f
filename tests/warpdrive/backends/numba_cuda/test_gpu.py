"""The Numba CUDA backend on a GPU: results, and launches without synchronisation or allocation."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
import torch
from corpus import CASES
from numba import cuda

import warpdrive as wd
from warpdrive.backends.loading import load_backend
from warpdrive.kernels.fusion import Fusion

pytestmark = pytest.mark.gpu

AGENTS = (1, 2, 5, 16, 31, 32, 33, 110, 1024, 1025, 3000)
"""Packed into warps, each in a block, and several for each thread."""

LONG = 2_000_000_000
"""Cycles that the GPU is kept busy: a second, about."""


@wd.kernel
def pass_on(position, total, swaps, num_rounds, weights):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    count = cuda.blockDim.x
    held = position[env, agent]
    for turn in range(num_rounds):
        cuda.syncthreads()
        held = position[env, (agent + 1) % count] + weights[turn % 3]
        cuda.syncthreads()
        position[env, agent] = held
        if agent == turn % count:
            swaps[env, agent] += 1
    cuda.syncthreads()
    cuda.atomic.add(total, env, held)
    if cuda.syncthreads_or(held % 7 == 0):
        swaps[env, agent] += 100


@wd.kernel
def add(x, amount, out):
    i = cuda.grid(1)
    if i < out.shape[0]:
        out[i] = x[i] + amount


@pytest.fixture
def numba_backend():
    return load_backend("numba")


def passing(backend, agents, replicas):
    """Return a launcher of ``pass_on``, and its tensors."""
    start = np.arange(replicas * agents, dtype=np.int32).reshape(replicas, agents)
    weights = np.array([1, -2, 5], np.int32)
    weights.flags.writeable = False
    arrays = {"position": start, "total": np.zeros(replicas, np.int32), "swaps": np.zeros_like(start)}
    tensors = {name: torch.from_numpy(array).clone().to(backend.device) for name, array in arrays.items()}
    arguments = {**tensors, "num_rounds": np.int32(4), "weights": weights}
    return backend.bind(Fusion.of(pass_on), arguments, replicas, agents), tensors


@pytest.mark.parametrize("agents", AGENTS)
@pytest.mark.parametrize("replicas", [1, 77])
def test_every_packing_gives_what_the_cpu_gives(agents, replicas, numba_backend):
    results = []
    for backend in (load_backend("cpu"), numba_backend):
        launch, tensors = passing(backend, agents, replicas)
        for _ in range(3):
            launch()
        results.append({name: tensor.cpu() for name, tensor in tensors.items()})
    for name, expected in results[0].items():
        assert torch.equal(results[1][name], expected), name


def test_a_launch_does_not_wait(numba_backend):
    launch, _ = passing(numba_backend, 5, 10)
    launch()
    torch.cuda.synchronize()
    done = torch.cuda.Event()
    torch.cuda._sleep(LONG)
    with wd.no_host_transfers():
        for _ in range(10):
            launch()
    done.record()
    assert not done.query()
    torch.cuda.synchronize()


def test_a_launch_takes_no_memory(numba_backend):
    launch, _ = passing(numba_backend, 3000, 10)
    launch()
    torch.cuda.synchronize()
    allocations, free = torch.cuda.memory_stats()["allocation.all.allocated"], torch.cuda.mem_get_info()[0]
    for _ in range(100):
        launch()
    torch.cuda.synchronize()
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == allocations
    assert torch.cuda.mem_get_info()[0] == free or "PYTEST_XDIST_WORKER" in os.environ  # other processes take some


@pytest.mark.parametrize("agents", [1, 5, 40, 3000])
def test_a_launch_can_be_captured_and_replayed(agents, numba_backend):
    launch, tensors = passing(numba_backend, agents, 20)
    other_launch, expected = passing(numba_backend, agents, 20)
    for _ in range(6):
        other_launch()
    launch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch()
    for _ in range(5):
        graph.replay()
    for name, tensor in expected.items():
        assert torch.equal(tensors[name], tensor), name


def test_other_threads_launch_too(numba_backend):
    launch, tensors = passing(numba_backend, 5, 10)
    _, expected = passing(numba_backend, 5, 10)
    errors = []

    def launch_there():
        try:
            launch()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=launch_there)
    thread.start()
    thread.join()
    torch.cuda.synchronize()
    assert not errors
    assert not torch.equal(tensors["position"], expected["position"])


def test_an_environment_of_3000_agents():
    config = {"num_taggers": 2999, "use_full_observation": False, "grid_length": 60, "episode_length": 6}
    envs = [
        wd.EnvWrapper(env_name="tag_gridworld", env_config=config, num_envs=3, env_backend=name)
        for name in ("cpu", "numba")
    ]
    rollouts = [env.allocate_rollout(8) for env in envs]
    for _ in range(8):
        for env, rollout in zip(envs, rollouts, strict=True):
            env.step_rollout(rollout)
    on_cpu, on_gpu = rollouts
    for name in ("actions", "terminated", "truncated", "rewards"):
        assert torch.equal(getattr(on_gpu, name).cpu(), getattr(on_cpu, name)), name
    torch.testing.assert_close(on_gpu.observations.cpu(), on_cpu.observations)


# --- kernels on their own ---


def test_a_kernel_of_cuda_tensors_runs_on_the_gpu():
    x, out = torch.arange(1000.0, device="cuda"), torch.zeros(1000, device="cuda")
    for amount in (1.0, 2.0):
        add[4, 256](x, amount, out)
        assert torch.equal(out, x + amount)
    matrix = torch.arange(12.0, device="cuda").reshape(3, 4)
    column = torch.zeros(3, device="cuda")
    add[1, 32](matrix[:, 1], 0.5, column)
    assert column.tolist() == [1.5, 5.5, 9.5]
    with pytest.raises(wd.KernelError, match="'out' of kernel 'add' is on the CPU, but 'x' on cuda:0"):
        add[1, 32](x, 1.0, torch.zeros(3))


def test_arrays_of_other_libraries():
    class Borrowed:
        def __init__(self, tensor):
            self.tensor, self.__cuda_array_interface__ = tensor, tensor.__cuda_array_interface__

    x, out = torch.arange(100.0, device="cuda"), torch.zeros(100, device="cuda")
    add[1, 128](Borrowed(x), np.float32(3), Borrowed(out))
    assert torch.equal(out, x + 3)


def test_the_authors_stream_and_pytorchs_current_one():
    x, out = torch.ones(10, device="cuda"), torch.zeros(10, device="cuda")
    side = torch.cuda.Stream()
    add[1, 32](x, 1.0, out)
    torch.cuda.synchronize()
    for launch_on_side in (lambda: add[1, 32](x, 1.0, out), lambda: add[1, 32, side](x, 1.0, out)):
        out.zero_()
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(LONG)
            launch_on_side()
        early = out.tolist()  # on the default stream, which does not wait for the other one
        assert not side.query()
        side.synchronize()
        assert (early, out.tolist()) == ([0.0] * 10, [2.0] * 10)
    with torch.cuda.stream(side):
        torch.cuda._sleep(LONG)
    add[1, 32, side](x, 4.0, out)
    early = out.tolist()
    side.synchronize()
    assert (early, out.tolist()) == ([2.0] * 10, [5.0] * 10)


class DeviceArray:
    """A copy of a NumPy array on the GPU, of any dtype and layout."""

    def __init__(self, array):
        flat = array.ravel("K") if array.flags.c_contiguous or array.flags.f_contiguous else array.ravel()
        layout = array if array.flags.c_contiguous or array.flags.f_contiguous else np.ascontiguousarray(array)
        self.dtype, self.shape, self.strides = array.dtype, layout.shape, layout.strides
        self.bytes = torch.from_numpy(np.frombuffer(flat.tobytes() or b"\0", np.uint8).copy()).cuda()
        structured = array.dtype.fields is not None
        self.__cuda_array_interface__ = {
            "shape": self.shape,
            "strides": self.strides,
            "typestr": array.dtype.str,
            "descr": array.dtype.descr if structured else [("", array.dtype.str)],
            "data": (self.bytes.data_ptr(), not array.flags.writeable),
            "version": 3,
        }

    def to_host(self):
        data = self.bytes.cpu().numpy().tobytes()
        return np.ndarray(self.shape, self.dtype, data, strides=self.strides)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_kernels_as_the_field_writes_them(case):
    def launch(kernel, blocks, threads, *arguments, shared=0):
        there = [DeviceArray(value) if isinstance(value, np.ndarray) else value for value in arguments]
        wd.kernel(kernel)[blocks, threads, 0, shared](*there)
        torch.cuda.synchronize()
        for value, copy in zip(arguments, there, strict=True):
            if isinstance(value, np.ndarray) and value.flags.writeable:
                value[...] = copy.to_host()

    case.run(launch)
