"""Devices, contexts, streams and events, as programs ask for them."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest


def test_there_is_one_device(cuda, capsys):
    assert cuda.is_available() and cuda.is_supported_version() and cuda.cuda_error() is None
    assert cuda.detect() and "1 CUDA devices" in capsys.readouterr().out
    assert len(cuda.gpus) == len(list(cuda.list_devices())) == 1
    device = cuda.get_current_device()
    assert cuda.select_device(0) is device is cuda.current_context().device
    for found in (device, cuda.gpus[0], cuda.gpus.current):
        assert (found.id, found.WARP_SIZE, found.MAX_THREADS_PER_BLOCK) == (0, 32, 1024)
        assert found.compute_capability >= (7, 0) and isinstance(found.name, str) and found.MULTIPROCESSOR_COUNT > 0
    with cuda.gpus[0], pytest.raises(IndexError):
        cuda.select_device(1)
    with pytest.raises(AttributeError, match="COLOR"):
        device.COLOR  # noqa: B018
    cuda.close()


def test_contexts_know_the_memory(cuda):
    with cuda.defer_cleanup(), cuda.profiling():
        memory = cuda.current_context().get_memory_info()
    assert 0 < memory.free <= memory.total
    cuda.current_context().reset()
    cuda.synchronize()
    cuda.profile_start()
    cuda.profile_stop()


def test_streams_call_back_and_are_awaited(cuda):
    stream, calls = cuda.stream(), []
    stream.add_callback(lambda *given: calls.append(given), "argument")
    assert calls == [(stream, 0, "argument")]

    async def wait():
        return await stream.async_done()

    assert asyncio.run(wait()) is stream
    assert int(cuda.default_stream()) == 0 != int(stream) != int(cuda.stream())
    assert int(cuda.external_stream(int(stream))) == int(stream)


def test_events_measure_the_time_of_launches(cuda):
    @cuda.jit
    def work(values):
        for _ in range(20_000_000):
            values[0] = values[0] * 0.5 + 1

    values = cuda.device_array(1)
    work[1, 1](values)
    start, end = cuda.event(), cuda.event()
    start.record()
    work[1, 1](values)
    end.record(cuda.stream())
    end.synchronize()
    assert end.query() and start.elapsed_time(end) == cuda.event_elapsed_time(start, end) > 1
    with pytest.raises(cuda.cudadrv.driver.CudaAPIError):
        start.elapsed_time(cuda.event())
    with pytest.raises(cuda.cudadrv.driver.CudaAPIError):
        start.elapsed_time(cuda.event(timing=False))


def test_functions_of_the_driver_are_refused_by_name(cuda):
    from numba.cuda.cudadrv import driver

    with pytest.raises(driver.CudaAPIError, match="cuMemGetInfo"):
        driver.driver.cuMemGetInfo()
    with pytest.raises(driver.LinkerError, match="add_cu"):
        driver.Linker.new(cc=(7, 5)).add_cu("x")
    assert cuda.runtime.get_version() >= (11, 0)


def test_bytes_are_copied_between_memories(cuda):
    from numba.cuda.cudadrv.driver import device_memset, device_pointer, device_to_host, host_to_device

    device, host = cuda.to_device(np.zeros(4, np.int32)), np.arange(4, dtype=np.int32)
    assert device_pointer(device) == device_pointer(device.gpu_data) == device.__cuda_array_interface__["data"][0]
    host_to_device(device, host, 8)
    assert device.copy_to_host().tolist() == [0, 1, 0, 0]
    device_memset(device, 1, 4)
    device_to_host(host, device.gpu_data, 8)
    assert host.tolist() == [0x01010101, 1, 2, 3]
    assert device.gpu_data.view(4, 8).size == 4
