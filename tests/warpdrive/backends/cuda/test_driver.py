"""The driver, GPUs and launches, with a fake driver that logs calls."""

from __future__ import annotations

import struct
import threading

import numpy as np
import pytest

from warpdrive.backends.cuda import driver, failures
from warpdrive.backends.cuda.device import device_at
from warpdrive.backends.cuda.driver import DriverError, DriverMissingError
from warpdrive.backends.cuda.launch import Launch
from warpdrive.errors import BackendError
from warpdrive.kernels.errors import KernelError

CUBIN = b"\x7fELF\x02\x00 a cubin"


def words_of(line: str) -> list[int]:
    """Return the parameters of a logged launch."""
    return [int(word, 16) for word in line.split(" stream ")[1].split()[1:]]


@pytest.fixture
def launch_of(fake_gpu):
    def make(index=0, dtypes=(), values=(), blocks=(3, 1, 1), threads=(64, 1, 1), **options):
        fake_gpu.set(parameters=len(dtypes))
        gpu = device_at(index)
        return Launch(gpu, gpu.load("step", "_Z4step", CUBIN), blocks, threads, dtypes, values, **options)

    return make


# --- looking at a machine ---


def test_the_version_and_the_gpus(fake_gpu):
    fake_gpu.set(version=12080, count=2, major=8, minor=6)
    assert fake_gpu.driver.version() == (12, 8)
    first, second = fake_gpu.driver.gpus()
    assert (first.name, second.name) == ("Fake GPU 0", "Fake GPU 1")
    assert (second.capability, second.memory_bytes, second.multiprocessors) == ((8, 6), 81 << 30, 132)


def test_a_driver_that_sees_no_gpu(fake_gpu, monkeypatch):
    fake_gpu.set(count=0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    with pytest.raises(
        DriverError, match=r"NO_DEVICE\): the driver sees no GPU; CUDA_VISIBLE_DEVICES is '7'"
    ) as caught:
        fake_gpu.driver.gpus()
    assert caught.value.code == 100


def test_a_library_that_is_no_driver_is_told(monkeypatch):
    driver.the_driver.cache_clear()
    monkeypatch.setattr(driver.ctypes, "CDLL", lambda name: object())
    with pytest.raises(DriverMissingError, match=r"too old .*cuInit.*nvidia.com/drivers"):
        driver.the_driver()


def test_a_missing_driver_is_told(monkeypatch):
    def missing(name):
        raise OSError(f"{name}: cannot open shared object file")

    driver.the_driver.cache_clear()
    monkeypatch.setattr(driver.ctypes, "CDLL", missing)
    with pytest.raises(
        DriverMissingError, match=r"no NVIDIA driver \(libcuda.so.1: cannot open.*nvidia.com/drivers.*gpus all"
    ):
        driver.the_driver()


# --- loading ---


def test_pytorch_comes_first_and_the_context_is_the_primary_one(fake_gpu):
    fake_gpu.set(count=2)
    assert device_at(1) is device_at(1)
    assert fake_gpu.started == [1]
    assert fake_gpu.log == ["retain 1"]


def test_code_is_loaded_once_for_each_gpu_and_content(fake_gpu):
    fake_gpu.set(count=2, registers=40, local=8, shared=512)
    first = device_at(0).load("step", "_Z4step", CUBIN)
    assert device_at(0).load("step", "_Z4step", bytes(bytearray(CUBIN))) is first
    device_at(0).load("step", "_Z4step", CUBIN + b"!")
    device_at(1).load("step", "_Z4step", CUBIN)
    assert sum(line.startswith("load") for line in fake_gpu.log) == 3
    assert (first.registers, first.local_bytes, first.shared_bytes, first.most_threads) == (40, 8, 512, 1024)
    assert fake_gpu.log[1:5] == ["push 0", "load \x7fELF\x02", "function _Z4step", "pop"]


def test_a_compiler_newer_than_the_driver_is_told(fake_gpu):
    fake_gpu.set(cuModuleLoadDataEx=222, version=13000)
    with pytest.raises(DriverError) as caught:
        device_at(0).load("step", "_Z4step", b".version 9.4")
    message = str(caught.value)
    for part in (
        *("code of kernel 'step' cannot be loaded onto GPU 0", "Fake GPU 0 of compute capability 9.0"),
        *(
            "supports CUDA 13.0",
            "UNSUPPORTED_PTX_VERSION",
            "line 9; fatal",
            "install a newer driver",
            "warpdrive doctor",
        ),
    ):
        assert part in message
    assert "more" not in message.split("fatal")[1].split(":")[0]
    assert fake_gpu.log[-1] == "pop"  # the thread has its own context back


# --- launching ---


def test_a_launch_hands_over_grid_block_and_a_word_for_each_parameter(fake_gpu, launch_of):
    dtypes = [np.dtype(name) for name in ("i4", "i8", "f4", "f8", "?", "f2", "u1", "i2")]
    launch = launch_of(dtypes=dtypes, values=[-2, 0x7F12345678, 1.5, -0.1, True, 0.5, 255, -3], shared_bytes=128)
    fake_gpu.current_stream = 0xABC0
    launch.run()
    line = fake_gpu.log[-2]
    assert "(3,1,1) (64,1,1) 128 stream 0xabc0" in line
    expected = b"".join(struct.pack(code, value).ljust(8, b"\0") for code, value in [
        ("<i", -2), ("<q", 0x7F12345678), ("<f", 1.5), ("<d", -0.1), ("?", True), ("<e", 0.5), ("<B", 255), ("<h", -3),
    ])  # fmt: skip
    assert words_of(line) == list(struct.unpack("<8Q", expected))


def test_other_values_take_the_place_of_the_first(fake_gpu, launch_of):
    launch = launch_of(dtypes=[np.dtype("i8")] * 2, values=[1, 2])
    launch.fill([3, 4])
    launch.run()
    assert words_of(fake_gpu.log[-2]) == [3, 4]


def test_each_launch_goes_to_the_stream_that_is_current_then(fake_gpu, launch_of):
    launch = launch_of()
    for stream in (0x10, 0x20):
        fake_gpu.current_stream = stream
        launch.run()
    assert [line.split()[-1] for line in fake_gpu.log if line.startswith("launch")] == ["0x10", "0x20"]


def test_a_stream_of_the_authors_own_is_kept(fake_gpu, launch_of):
    launch = launch_of(stream=0x77)
    fake_gpu.current_stream = 0x10
    launch.run()
    assert fake_gpu.log[-2].endswith("stream 0x77")


def test_a_launch_asks_for_nothing_else(fake_gpu, launch_of):
    launch = launch_of()
    with device_at(0).in_context():
        launch.run()
        fake_gpu.forget()
        launch.run()
        launch.run()
        assert [line.split()[0] for line in fake_gpu.log] == ["launch", "launch"]


def test_a_thread_without_the_context_gets_it_for_the_launch(fake_gpu, launch_of):
    launch = launch_of()
    fake_gpu.forget()
    thread = threading.Thread(target=launch.run)
    thread.start()
    thread.join()
    assert [line.split()[0] for line in fake_gpu.log] == ["push", "launch", "pop"]


def test_the_context_of_another_gpu_is_left_alone(fake_gpu, launch_of):
    fake_gpu.set(count=2)
    launch = launch_of(index=1)
    with device_at(0).in_context():
        fake_gpu.forget()
        launch.run()
        assert [" ".join(line.split()[:2]) for line in fake_gpu.log] == ["push 1", fake_gpu.log[1][:13], "pop"]
        assert " on 1 " in fake_gpu.log[1]


def test_blocks_that_wait_for_each_other_are_launched_at_once(fake_gpu, launch_of):
    launch = launch_of(is_cooperative=True)
    with device_at(0).in_context():
        fake_gpu.forget()
        launch.run()
        assert [line.split()[:2] for line in fake_gpu.log] == [["cooperative", "launch"]]
    fake_gpu.set(cuLaunchKernel=720)
    with pytest.raises(DriverError, match="must all run at once: use fewer or smaller blocks"):
        launch.run()


def test_more_threads_than_its_registers_allow_are_refused(fake_gpu, launch_of):
    fake_gpu.set(most_threads=512, registers=128)
    with pytest.raises(KernelError, match=r"1024 threads.*128 registers.*Fake GPU 0\) runs it with at most 512"):
        launch_of(threads=(32, 32, 1))


def test_much_shared_memory_is_asked_for_once(fake_gpu, launch_of):
    fake_gpu.set(shared=40 << 10)
    launch_of(shared_bytes=9 << 10).run()
    assert [line for line in fake_gpu.log if line.startswith("attribute")] == ["attribute 8 of 0x1010 is 9216"]


def test_a_launch_with_less_shared_memory_leaves_an_earlier_one_what_it_needs(fake_gpu, launch_of):
    for wanted in (90, 60, 100):
        launch_of(shared_bytes=wanted << 10)
    allowed = [line.split()[-1] for line in fake_gpu.log if line.startswith("attribute")]
    assert allowed == [str(90 << 10), str(100 << 10)]


def test_more_shared_memory_than_there_is_is_told(fake_gpu, launch_of):
    fake_gpu.set(cuFuncSetAttribute=1)
    with pytest.raises(BackendError, match=r"'step' cannot have 300000 bytes of dynamic shared memory .*INVALID_VALUE"):
        launch_of(shared_bytes=300_000)


def test_resident_blocks(fake_gpu):
    gpu = device_at(0)
    assert gpu.resident_blocks(gpu.load("step", "_Z4step", CUBIN), 128) == 16


# --- what fails ---


def test_a_fault_of_an_earlier_kernel_is_told(fake_gpu, launch_of):
    launch = launch_of()
    fake_gpu.set(cuLaunchKernel=700)
    with pytest.raises(DriverError) as caught:
        launch.run()
    message = str(caught.value)
    assert "kernel 'step' cannot be launched with (3, 1, 1) blocks of (64, 1, 1) threads on GPU 0" in message
    for part in ("ILLEGAL_ADDRESS", "launched earlier", "restart Python", "warpdrive check", "CUDA_LAUNCH_BLOCKING=1"):
        assert part in message


def test_too_few_resources_are_told_with_what_the_kernel_takes(fake_gpu, launch_of):
    fake_gpu.set(registers=200, shared=1000)
    launch = launch_of(shared_bytes=24)
    fake_gpu.set(cuLaunchKernel=701)
    with pytest.raises(DriverError, match="200 registers in each thread and 1024 bytes of shared memory"):
        launch.run()


def test_an_error_that_nobody_knows_has_its_number(fake_gpu, launch_of):
    launch = launch_of()
    fake_gpu.set(cuLaunchKernel=12345)
    with pytest.raises(DriverError, match="CUDA error 12345"):
        launch.run()


@pytest.mark.parametrize("code", failures._EXPLANATIONS)
def test_explanations_are_one_line(code):
    text = failures.explained("x", code, "CUDA_ERROR")
    assert text.startswith("x (CUDA_ERROR): ") and "\n" not in text
