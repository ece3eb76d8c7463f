"""Launches through PyCUDA, recorded by a fake; ``test_gpu.py`` tests them on a GPU."""

from __future__ import annotations

import re
import struct
import sys
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from warpdrive.backends.loading import load_backend
from warpdrive.backends.pycuda import PyCudaBackend, launch
from warpdrive.backends.pycuda.nvrtc import compile_fused
from warpdrive.errors import BackendError
from warpdrive.kernels.fusion import Call, Fusion

TEXT = """
WD_KERNEL void step(int *x, const float *table, int whole) {
    wd_barrier();
    x[wd_index(x, wd_env(), wd_agent())] = table[0] > 0.0f ? whole : 0;
}"""


class Driver(ModuleType):
    """Fake of ``pycuda.driver``, with its rules: modules and streams are created in a pushed context."""

    def __init__(self, log):
        super().__init__("pycuda.driver")
        self.log, stack = log, []
        self.stack = stack

        class Context:
            def __init__(self, device):
                self.device = device

            def push(self):
                stack.append(self)

            @staticmethod
            def pop():
                stack.pop()

        class Device:
            def __init__(self, index):
                assert "init" in log
                self.index = index

            def retain_primary_context(self):
                log.append(f"retain {self.index}")
                return Context(self.index)

        class Function:
            def prepare(self, types):
                (kind,) = types
                assert kind.char == "V"
                self.bytes = kind.itemsize
                return self

            def prepared_async_call(self, grid, block, stream, *arguments, shared_size=0):
                assert not stack, "a launch needs no pushed context"
                assert isinstance(grid, tuple) and isinstance(block, tuple)
                struct.pack(f"{self.bytes}s", *arguments)
                log.append(("launch", grid, block, stream and stream.handle, arguments[0]))

        class Module:
            def get_function(self, name):
                assert stack
                log.append(f"function {name}")
                return Function()

        class Stream:
            handle = 77

            def __init__(self, flags=0):
                assert stack
                assert flags == 1

        def module_from_buffer(image):
            assert stack
            assert image[:4] == b"\x7fELF"
            log.append(f"module on {stack[-1].device}")
            return Module()

        self.Context, self.Device, self.Stream, self.module_from_buffer = Context, Device, Stream, module_from_buffer

    def init(self):
        self.log.append("init")


class Event:
    """An event of PyTorch's that notes what is done with it."""

    def __init__(self, log):
        self.log = log

    def record(self, stream):
        self.log.append(f"record on {stream.cuda_stream}")


def stream_of(handle, log):
    return SimpleNamespace(cuda_stream=handle, wait_event=lambda event: log.append(f"{handle} waits"))


@pytest.fixture
def gpu(monkeypatch):
    """Have PyTorch and PyCUDA say that there are two GPUs; give what is noted."""
    log = []
    driver = Driver(log)
    package = ModuleType("pycuda")
    package.driver = driver
    monkeypatch.setitem(sys.modules, "pycuda", package)
    monkeypatch.setitem(sys.modules, "pycuda.driver", driver)
    monkeypatch.delenv("WARPDRIVE_CUDA_ON_HOST", raising=False)
    for remembered in (launch._driver, launch._context, launch._module, launch._own_stream):
        remembered.cache_clear()
    found = SimpleNamespace(log=log, current=0)

    @contextmanager
    def device(which):
        yield

    cuda = SimpleNamespace(
        device=device,
        get_device_capability=lambda which: (9, 0),
        current_stream=lambda: stream_of(found.current, log),
        Event=lambda: Event(log),
        ExternalStream=lambda handle, device: stream_of(handle, log),
    )
    monkeypatch.setattr(launch, "torch", SimpleNamespace(cuda=cuda, device=torch.device))
    monkeypatch.setattr(launch, "check_usable", lambda *_: None)
    monkeypatch.setattr(launch, "gpu_of", lambda process_id, machine: process_id % 2)
    monkeypatch.setattr(launch.pytorch, "start", lambda index: log.append(f"torch on cuda:{index}"))
    monkeypatch.setattr(launch.pytorch, "make_current", lambda index: log.append(f"current: {index}"))
    monkeypatch.setattr(launch.pytorch, "current_stream_of", lambda index: lambda: found.current)
    monkeypatch.setattr(launch, "_on_device", lambda value, device: as_tensor(value))
    yield found
    for remembered in (launch._driver, launch._context, launch._module, launch._own_stream):
        remembered.cache_clear()


def as_tensor(value):
    return torch.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value


@pytest.fixture
def bound(gpu, tmp_path):
    """Give a kernel that is bound to arguments, for 100 replicas of 5 agents."""
    import warpdrive as wd

    file = tmp_path / "step.cu"
    file.write_text(TEXT)
    kernel = wd.cuda_kernel(file, "step")
    table = np.ones(3, np.float32)
    table.flags.writeable = False
    x = torch.zeros(100, 5, dtype=torch.int32)
    arguments = {"x": x, "table": table, "whole": np.int32(-7)}
    fusion = Fusion("step", kernel.parameters, (Call(kernel, kernel.parameters),))
    backend = PyCudaBackend(1)
    run = backend.bind(fusion, arguments, 100, 5)
    return SimpleNamespace(run=run, x=x, log=gpu.log, gpu=gpu, at_once=(backend, fusion, arguments))


def test_pytorch_comes_first_and_its_context_is_shared(bound):
    assert bound.log[:3] == ["torch on cuda:1", "current: 1", "init"]
    assert bound.log[3:] == ["retain 1", "module on 1", "function wd_step"]


def test_a_launch_hands_over_one_struct(bound):
    bound.run()
    kind, grid, block, stream, words = bound.log[-1]
    assert (kind, grid, block, stream) == ("launch", (9, 1), (64, 1, 1), None)  # 6 to a warp, 12 to a block
    replicas, x, table, whole = struct.unpack("<i4xQQi4x", words)
    assert (replicas, x, whole) == (100, bound.x.data_ptr(), -7)
    assert table != 0


def test_how_many_replicas_fill_the_gpu(bound, fake_gpu):
    fake_gpu.set(count=2)
    backend, fusion, arguments = bound.at_once
    assert backend.replicas_at_once(fusion, arguments, 100, 5) == 132 * (2048 // 64) * 12


def test_another_stream_of_pytorchs_is_joined_by_events(bound):
    bound.gpu.current = 55
    before = len(bound.log)
    bound.run()
    first, second, call, third, fourth = bound.log[before:]
    assert (first, second, third, fourth) == ("record on 55", "77 waits", "record on 77", "55 waits")
    assert call[3] == 77


def test_launches_make_nothing_anew(bound):
    bound.gpu.current = 55
    bound.run()
    before = len(bound.log)
    bound.run()
    assert not any("module" in str(entry) or "retain" in str(entry) for entry in bound.log[before:])


def test_the_struct_is_what_the_cuda_c_declares(bound, tmp_path):
    """The offsets in the PTX are those of the words."""
    table = np.ones(3, np.float32)
    table.flags.writeable = False
    import warpdrive as wd

    kernel = wd.cuda_kernel(tmp_path / "step.cu", "step")
    fusion = Fusion("step", kernel.parameters, (Call(kernel, kernel.parameters),))
    code, _ = compile_fused(fusion, {"x": bound.x, "table": table, "whole": np.int32(1)}, 100, 5, (9, 0))
    assert re.search(r"\.param \.align 8 \.b8 wd_step_param_0\[32\]", code.ptx)


def test_processes_take_turns_at_the_gpus(gpu):
    assert [PyCudaBackend(process_id).device.index for process_id in range(3)] == [0, 1, 0]


def test_a_gpu_that_cannot_be_used_is_told(monkeypatch):
    def lacks_everything(backend, lacks, process_id):
        raise BackendError(f"env_backend '{backend}' cannot be used on this machine")

    monkeypatch.delenv("WARPDRIVE_CUDA_ON_HOST", raising=False)
    monkeypatch.setattr(launch, "check_usable", lacks_everything)
    with pytest.raises(BackendError, match=r"'pycuda' cannot be used on this machine; WARPDRIVE_CUDA_ON_HOST=1 runs"):
        load_backend("pycuda")


def test_pycuda_that_cannot_be_imported_is_told(gpu, monkeypatch):
    monkeypatch.setitem(sys.modules, "pycuda", None)
    with pytest.raises(
        BackendError, match=r"needs PyCUDA, which cannot be imported.*pip install 'warpdrive\[pycuda\]'"
    ):
        load_backend("pycuda")
