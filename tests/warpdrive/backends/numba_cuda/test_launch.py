"""Launch arguments of the Numba CUDA backend, recorded by a fake driver."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from exhaustive import exhaustive
from gymnasium import spaces
from numba import cuda

import warpdrive as wd
from warpdrive.backends.cuda import selection
from warpdrive.backends.numba_cuda import NumbaCudaBackend, launch, standalone as alone
from warpdrive.kernels.fusion import Fusion

WIDTHS = {".u8": 1, ".u16": 2, ".b16": 2, ".u32": 4, ".f32": 4, ".u64": 8, ".f64": 8}


@wd.kernel
def scale(x, factor, out):
    i = cuda.grid(1)
    if i < x.shape[0]:
        out[i] = x[i] * factor


@wd.kernel
def of_many_kinds(a, b, c, number, truth, pair):
    i = cuda.threadIdx.x
    if truth:
        c[i, 0] = a[i, 1] + b[i, 1] + number + pair.real


@wd.kernel
def reversed_in_dynamic_memory(x):
    held = cuda.shared.array(0, np.float32)
    i = cuda.threadIdx.x
    held[i] = x[i]
    cuda.syncthreads()
    x[i] = held[x.shape[0] - 1 - i]


@wd.kernel
def stay(x, rewards):
    rewards[cuda.blockIdx.x, cuda.threadIdx.x] = x[cuda.blockIdx.x, cuda.threadIdx.x]


class Crowd(wd.Environment):
    """Any number of agents, whose kernels compile in no time."""

    name, step = "crowd", stay
    episode_length, action_space = 5, spaces.Discrete(2)
    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)

    def __init__(self, num_agents):
        self.num_agents, self.policy_tags = num_agents, {"all": range(num_agents)}

    def initial_state(self, rng):
        n = self.num_agents
        return {"x": np.zeros(n, np.float32), "observations": np.zeros((n, 1), np.float32)}


class DeviceArray:
    """An array of NumPy's that says it is on a GPU."""

    def __init__(self, array, readonly=False):
        self.array, self.readonly = array, readonly

    @property
    def __cuda_array_interface__(self):
        array = self.array
        strides = None if array.flags.c_contiguous else array.strides
        address = array.ctypes.data
        data = {"data": (address, self.readonly), "strides": strides}
        return {"shape": array.shape, "typestr": array.dtype.str, "version": 3, **data}


@pytest.fixture(autouse=True)
def all_is_there(monkeypatch, fake_gpu):
    fake_gpu.set(count=2)
    monkeypatch.setattr(alone, "check_usable", lambda *_: None)
    monkeypatch.setattr(selection, "check_usable", lambda *_: None)
    monkeypatch.setattr(selection, "gpu_of", lambda process_id, machine: process_id % 2)


@pytest.fixture
def compiled(monkeypatch):
    """Give the list of the codes that are compiled, or found in the cache, from now on."""
    codes = []
    monkeypatch.delitem(scale.memory, "numba", raising=False)  # of a test that ran before in this process
    for module in (alone, launch):

        def noted(*arguments, original=module.compile_kernel):
            codes.append(original(*arguments))
            return codes[-1]

        monkeypatch.setattr(module, "compile_kernel", noted)
    return codes


@pytest.fixture
def backend():
    """Give a backend whose launches are seen by the fake driver, and whose tensors are on the CPU."""
    backend = NumbaCudaBackend()
    assert backend.device == torch.device("cuda", 0)
    backend.device = torch.device("cpu")
    return backend


def launches(fake_gpu):
    return [line for line in fake_gpu.log if line.startswith("launch")]


def words(line):
    return [int(word, 16) for word in line.split(" stream ")[1].split()[1:]]


def widths_of(code):
    """Return the bytes of each parameter as the PTX declares them."""
    declared = re.search(r"\.entry \w+\((.*?)\)", code.ptx, re.DOTALL)[1]
    return [WIDTHS[width] for width in re.findall(r"\.param (\.\w+)", declared)]


# --- environments ---


@pytest.mark.parametrize(
    ("agents", "num_envs", "grid", "block"),
    [
        (1, 300, 5, 64),  # 32 replicas in each of 2 warps
        (5, 50, 5, 64),  # 6 replicas in each of 2 warps
        (40, 50, 50, 40),  # a replica in a block
        (3000, 7, 7, 1024),  # three agents in a thread
    ],
)
def test_grid_and_block_of_each_packing(agents, num_envs, grid, block, backend, fake_gpu):
    wd.EnvWrapper(Crowd(agents), num_envs, backend)
    (line,) = launches(fake_gpu)
    assert f" on 0 ({grid},1,1) ({block},1,1) 0 stream" in line


def test_an_environment_hands_over_what_its_code_declares(walkers, backend, fake_gpu, compiled):
    fake_gpu.set(parameters=1)
    env = wd.EnvWrapper(walkers(), num_envs=50, env_backend=backend)
    rollout = env.allocate_rollout(3)
    (reset, step) = compiled
    assert widths_of(step)[0] == 4
    fake_gpu.set(parameters=len(widths_of(step)))
    fake_gpu.forget()
    env.step_rollout(rollout)
    (line,) = launches(fake_gpu)
    found = words(line)
    assert found[0] == 50
    addresses = set(found)
    for tensor in (env.ctx["position"], env.ctx["rewards"], rollout.rewards, rollout.observations, rollout.step):
        assert tensor.data_ptr() in addresses
    assert widths_of(reset) != widths_of(step)


def test_launches_of_an_environment_ask_for_nothing_else(walkers, backend, fake_gpu):
    env = wd.EnvWrapper(walkers(), num_envs=50, env_backend=backend)
    rollout = env.allocate_rollout(4)
    with backend.gpu.in_context():
        fake_gpu.forget()
        for _ in range(4):
            env.step_rollout(rollout)
        assert [line.split()[0] for line in fake_gpu.log] == ["launch"] * 4


def test_other_numbers_of_replicas_and_steps_need_no_other_code(walkers, backend, compiled):
    for num_envs, num_steps in ((50, 3), (51, 7)):
        env = wd.EnvWrapper(walkers(), num_envs=num_envs, env_backend=backend)
        env.allocate_rollout(num_steps)
    assert [code.name for code in compiled[:2]] == [code.name for code in compiled[2:]]
    assert [code.image for code in compiled[:2]] == [code.image for code in compiled[2:]]


@pytest.mark.parametrize(
    ("agents", "at_once"),
    exhaustive(
        [
            (5, 132 * (2048 // 64) * 12),  # 12 replicas in each block of 64 threads
            (40, 132 * (2048 // 40)),  # a replica in each block of 40
        ],
        (5,),
    ),
)
def test_how_many_replicas_fill_the_gpu(agents, at_once, backend):
    """The stand-in has 132 multiprocessors, of 2048 threads each."""
    env = wd.EnvWrapper(Crowd(agents), 50, backend)
    arrays = set(env.ctx)
    assert env.replicas_at_once() == at_once
    assert set(env.ctx) == arrays


def test_constants_are_copied_once(backend, monkeypatch):
    table = np.arange(4, dtype=np.float32)
    table.flags.writeable = False
    out = torch.zeros(2, 3)

    @wd.kernel
    def look_up(table, out):
        out[cuda.blockIdx.x, cuda.threadIdx.x] = table[cuda.threadIdx.x]

    for _ in range(2):
        backend.bind(Fusion.of(look_up), {"table": table, "out": out}, 2, 3)
    ((kept, copy),) = backend._constants.values()
    assert kept is table and copy.tolist() == [0, 1, 2, 3] and copy.data_ptr() != table.ctypes.data


def test_each_process_launches_on_its_gpu(fake_gpu):
    backends = [NumbaCudaBackend(process_id) for process_id in range(3)]
    assert [str(backend.device) for backend in backends] == ["cuda:0", "cuda:1", "cuda:0"]
    backends[1].device = torch.device("cpu")
    wd.EnvWrapper(Crowd(1), 2, backends[1])
    assert " on 1 " in launches(fake_gpu)[0]


# --- kernels on their own ---


def test_a_kernel_of_device_arrays_runs_on_the_gpu(fake_gpu, compiled):
    x, out = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    fake_gpu.set(parameters=5)
    scale[(4, 1), 32](DeviceArray(x), 2.5, DeviceArray(out))
    (line,) = launches(fake_gpu)
    assert "(4,1,1) (32,1,1) 0 stream" in line
    factor = np.frombuffer(np.float64(2.5).tobytes(), np.uint64)[0]
    assert words(line) == [x.ctypes.data, 100, factor, out.ctypes.data, 100]
    assert widths_of(compiled[0]) == [8] * 5
    assert not out.any()


def test_arguments_of_many_kinds(fake_gpu, compiled):
    a, c = np.zeros((4, 6), np.int16), np.zeros((4, 5))
    b = np.asfortranarray(np.zeros((4, 5), np.float32))
    kernel = wd.kernel(of_many_kinds.function)
    fake_gpu.set(parameters=17)
    kernel[1, 4](DeviceArray(a[:, ::2]), DeviceArray(b), DeviceArray(c), np.int32(-1), True, 1 + 2j)
    found = words(launches(fake_gpu)[-1])
    assert found[:5] == [a.ctypes.data, 4, 3, 12, 4]
    assert found[5:10] == [b.ctypes.data, 4, 5, 4, 16]
    assert found[10:13] == [c.ctypes.data, 4, 5]
    assert found[13] == 0xFFFFFFFF and found[14] == 1
    assert found[15:] == np.frombuffer(np.array(1 + 2j).tobytes(), np.uint64).tolist()
    assert widths_of(compiled[0]) == [8] * 13 + [4, 1, 8, 8]


def test_records(fake_gpu, compiled):
    @wd.kernel
    def grow(records):
        records[cuda.threadIdx.x].size += records[cuda.threadIdx.x].step

    class Records(DeviceArray):
        dtype = np.dtype([("size", np.float64), ("step", np.float32)], align=True)

    fake_gpu.set(parameters=2)
    records = np.zeros(4, Records.dtype)
    grow[1, 4](Records(records))
    assert words(launches(fake_gpu)[0]) == [records.ctypes.data, 4]
    with pytest.raises(wd.KernelError, match=re.escape("'records' of kernel 'grow' has dtype |V16")):
        grow[1, 4](DeviceArray(records))


def test_other_arguments_of_the_same_kinds_are_launched_as_they_are(fake_gpu, compiled):
    kernel = wd.kernel(scale.function)
    fake_gpu.set(parameters=5)
    for length in (8, 16):
        x, out = (DeviceArray(np.zeros(length, np.float32)) for _ in range(2))
        kernel[1, 32](x, 2.0, out)
        found = words(launches(fake_gpu)[-1])
        assert found[:2] == [x.array.ctypes.data, length] and found[3:] == [out.array.ctypes.data, length]
    assert len(compiled) == 1
    kernel[1, 32](DeviceArray(np.zeros(8, np.float64)), 2.0, out)
    kernel[1, 32](DeviceArray(np.zeros(8, np.float32), readonly=True), 2.0, out)
    kernel[1, 32](x, np.float32(2), out)
    kernel[1, 32](DeviceArray(np.zeros(16, np.float32)[::2]), 2.0, out)
    assert len(compiled) == 5
    fake_gpu.forget()
    kernel[1, 32](x, 3.0, out)
    assert len(compiled) == 5 and [line.split()[0] for line in fake_gpu.log] == ["push", "launch", "pop"]


def test_the_same_kernel_runs_where_its_arrays_are(fake_gpu):
    x, out = np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
    for _ in range(2):
        out[:] = 0
        scale[1, 32](DeviceArray(x), 2.0, DeviceArray(out))
        assert not out.any()
        scale[1, 32](x, 2.0, out)
        assert out.tolist() == [0, 2, 4, 6, 8]
    assert len(launches(fake_gpu)) == 2


def test_the_authors_stream(fake_gpu):
    class OfPyTorch:
        cuda_stream = 0x30

    class OfCudaCore:
        def __cuda_stream__(self):
            return 0, 0x40

    arrays = DeviceArray(np.zeros(4, np.float32)), 2.0, DeviceArray(np.zeros(4, np.float32))
    fake_gpu.current_stream = 0x10
    for stream in (0, OfPyTorch(), OfCudaCore(), 0x50):
        scale[1, 4, stream](*arrays)
    assert [line.split()[-1] for line in launches(fake_gpu)] == ["0x10", "0x30", "0x40", "0x50"]
    with pytest.raises(wd.KernelError, match="'scale' is launched on an object that is not a stream"):
        scale[1, 4, "stream"](*arrays)


def test_dynamic_shared_memory(fake_gpu):
    x = DeviceArray(np.zeros(64, np.float32))
    reversed_in_dynamic_memory[1, 64, 0, 256](x)
    assert "(64,1,1) 256 stream" in launches(fake_gpu)[0]
    with pytest.raises(wd.KernelError, match="dynamic size"):
        reversed_in_dynamic_memory[1, 64](x)


def test_arrays_in_different_places_are_refused():
    x, y = np.zeros(4, np.float32), DeviceArray(np.zeros(4, np.float32))
    with pytest.raises(wd.KernelError, match="'out' of kernel 'scale' is on a GPU, but 'x' on the CPU"):
        scale[1, 4](x, 2.0, y)
    with pytest.raises(wd.KernelError, match="'out' of kernel 'scale' is on the CPU, but 'x' on a GPU"):
        scale[1, 4](y, 2.0, torch.zeros(4))
    with pytest.raises(wd.KernelError, match="'out' of kernel 'scale' is on meta, but 'x' on the CPU"):
        scale[1, 4](x, 2.0, torch.zeros(4, device="meta"))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ((1.0, 2.0), "'factor' of kernel 'scale' is a tuple; on a GPU .*: pass its elements one by one"),
        ("text", "'factor' of kernel 'scale' is a str; on a GPU a kernel takes CUDA tensors"),
        (DeviceArray(np.zeros(4, ">f4")), "'factor' of kernel 'scale' has dtype >f4"),
    ],
)
def test_what_no_kernel_takes_on_a_gpu(value, said):
    x = DeviceArray(np.zeros(4, np.float32))
    with pytest.raises(wd.KernelError, match=said):
        scale[1, 4](x, value, x)


def test_a_gpu_that_cannot_be_used_is_told(monkeypatch):
    monkeypatch.undo()
    x, kernel = DeviceArray(np.zeros(4, np.float32)), wd.kernel(scale.function)
    if not torch.cuda.is_available():
        with pytest.raises(wd.WarpDriveError, match=r"'numba' cannot be used on this machine.*`warpdrive doctor`"):
            kernel[1, 4](x, 2.0, x)
