"""Arrays of the device, compared with those of NumPy."""

from __future__ import annotations

import numpy as np
import pytest

VALUES = np.arange(24, dtype=np.float32).reshape(4, 6)
RECORD = np.dtype([("x", np.float32), ("n", np.int64), ("v", np.int16, 3)], align=True)


@pytest.mark.parametrize(
    "host", [VALUES, np.asfortranarray(VALUES), VALUES.reshape(2, 3, 4), np.array(3.5), VALUES[:0]]
)
def test_copies_keep_shape_dtype_and_layout(cuda, host):
    device = cuda.to_device(host)
    copy = device.copy_to_host()
    np.testing.assert_array_equal(copy, host)
    assert copy.dtype == host.dtype and (not host.size or copy.strides == host.strides)
    assert (device.shape, device.dtype) == (host.shape, host.dtype)
    assert (device.size, device.ndim, device.nbytes) == (host.size, host.ndim, host.nbytes)
    assert device.is_c_contiguous() == device.flags["C_CONTIGUOUS"] == host.flags.c_contiguous
    assert device.is_f_contiguous() == host.flags.f_contiguous
    like = cuda.device_array_like(host)
    assert (like.shape, like.dtype) == (host.shape, host.dtype)
    if host.size:
        assert like.strides == device.strides == host.strides
        host = host.copy(order="K")
        device.copy_to_device(host * 2)
        device.copy_to_host(host)
        np.testing.assert_array_equal(host, copy * 2)
    np.testing.assert_array_equal(np.asarray(device), copy * 2)


@pytest.mark.parametrize(
    "index", [1, -1, (2, 3), slice(1, 3), (slice(None), 2), (slice(None, None, 2), slice(1, 4)), Ellipsis, (1, ...)]
)
def test_indices_give_elements_and_views(cuda, index):
    host, device = VALUES.copy(), cuda.to_device(VALUES)
    np.testing.assert_array_equal(np.asarray(device[index]), host[index])
    assert isinstance(device[index], np.float32) == isinstance(host[index], np.float32)
    host[index] = device[index] = -1
    np.testing.assert_array_equal(device.copy_to_host(), host)
    replacement = np.arange(np.size(host[index]), dtype=np.int64).reshape(np.shape(host[index]))
    host[index] = replacement
    device[index] = cuda.to_device(replacement)
    np.testing.assert_array_equal(device.copy_to_host(), host)


def test_views_share_memory(cuda):
    device = cuda.to_device(VALUES)
    for view in (device.reshape(24), device.reshape((2, -1)), device.ravel(), device.view(np.int32), device[1:]):
        before = device.copy_to_host()
        view[-1] = 7
        assert (device.copy_to_host() != before).any()
        device.copy_to_device(VALUES)
    np.testing.assert_array_equal(device.T, VALUES.T)
    assert cuda.to_device(VALUES[None]).squeeze().shape == (4, 6)
    assert [part.size for part in device.ravel().split(10)] == [10, 10, 4]
    assert [row.shape for row in device] == [(6,)] * 4 and len(device) == 4
    assert device.bind(cuda.stream()).copy_to_host().shape == (4, 6)


def test_what_a_gpu_cannot_copy_is_an_error(cuda):
    device = cuda.to_device(VALUES)
    for mistake, error in (
        (lambda: cuda.to_device(VALUES[:, ::2]), ValueError),
        (lambda: device[:, 1].copy_to_device(np.zeros(4, np.float32)), ValueError),
        (lambda: device.copy_to_device(np.zeros((4, 6))), TypeError),
        (lambda: device.copy_to_device(np.zeros((4, 5), np.float32)), ValueError),
        (lambda: device.copy_to_host(np.zeros((6, 4), np.float32)), ValueError),
        (lambda: device.copy_to_host(np.zeros((4, 6), np.float32, order="F")), ValueError),
        (lambda: device[::-1].copy_to_host(), NotImplementedError),
        (lambda: device[:, 1:].ravel(), NotImplementedError),
        (lambda: device[:, 1:].reshape(20), NotImplementedError),
        (lambda: cuda.to_device(VALUES.reshape(2, 3, 4)).T, NotImplementedError),
        (lambda: device.__setitem__(0, VALUES), ValueError),
        (lambda: device.__setitem__(slice(2), np.zeros(5)), ValueError),
        (lambda: device[VALUES > 3], TypeError),
        (lambda: device.get_ipc_handle(), NotImplementedError),
        (lambda: device.__array__(copy=False), ValueError),
    ):
        with pytest.raises(error):
            mistake()


def test_broadcast_arrays_keep_their_strides(cuda):
    host = np.broadcast_to(VALUES[0], (3, 6))
    device = cuda.to_device(host)
    assert device.strides == (0, 4)
    np.testing.assert_array_equal(device.copy_to_host(), host)


def test_records(cuda):
    host = np.zeros(3, RECORD)
    host["n"], host["v"] = [1, 2, 3], 5
    device = cuda.to_device(host)
    record = device[1]
    record["x"] = 2.5
    assert (record["n"], record["x"], device[1]["x"]) == (2, 2.5, 2.5)
    assert record["v"].copy_to_host().tolist() == [5, 5, 5]
    assert device.copy_to_host()["x"].tolist() == [0, 2.5, 0]

    @cuda.jit
    def set_field(record, records):
        record.n = 10
        records[2].n = 20

    set_field[1, 1](cuda.to_device(host[0]), device)
    set_field[1, 1](device[0], device)
    assert device.copy_to_host()["n"].tolist() == [10, 2, 20]
    single = cuda.to_device(host[1])
    target = np.zeros(1, RECORD)[0]
    single.copy_to_host(target)
    assert target == host[1]


def test_memory_of_host_and_device(cuda):
    @cuda.jit
    def increment(array):
        array[cuda.grid(1)] += 1

    for make in (cuda.mapped_array, cuda.managed_array, cuda.pinned_array, cuda.device_array):
        array = make(4, dtype=np.int32)
        array[:] = np.arange(4)
        increment[1, 4](array)
        assert np.asarray(array).tolist() == [1, 2, 3, 4]
    for like in (cuda.mapped_array_like, cuda.pinned_array_like, cuda.device_array_like):
        assert like(np.asfortranarray(VALUES)).strides == (4, 16)
    host = np.zeros(4)
    with cuda.pinned(host), cuda.mapped(host) as mapped:
        increment[1, 4](mapped)
        increment[1, 4](cuda.as_cuda_array(mapped))
        assert int(mapped.gpu_data) == host.ctypes.data
    assert host.tolist() == [2] * 4
    with pytest.raises(cuda.cudadrv.driver.CudaAPIError, match="not memory of this device"):
        assert mapped.gpu_data
    assert cuda.device_array((2, 3), np.int16, strides=(8, 2)).strides == (8, 2)
    with pytest.raises(ValueError, match="order"):
        cuda.device_array(3, order="X")


def test_arrays_of_other_libraries(cuda):
    from numba.cuda.testing import ForeignArray

    device = cuda.to_device(VALUES)
    foreign = ForeignArray(device[1:, 2:])
    assert cuda.is_cuda_array(foreign) and not cuda.is_cuda_array(VALUES)
    same = cuda.as_cuda_array(foreign)
    np.testing.assert_array_equal(same, VALUES[1:, 2:])
    same[0, 0] = 100
    assert device[1, 2] == 100

    @cuda.jit
    def clear(array):
        array[cuda.grid(2)] = 0

    clear[1, (3, 4)](foreign)
    expected = VALUES.copy()
    expected[1:, 2:] = 0
    np.testing.assert_array_equal(device, expected)
    with pytest.raises(TypeError):
        cuda.as_cuda_array(VALUES)
    elsewhere = {**device.__cuda_array_interface__, "data": (VALUES.ctypes.data, False)}
    with pytest.raises(cuda.cudadrv.driver.CudaAPIError, match="not memory of this device"):
        cuda.from_cuda_array_interface(elsewhere)


@pytest.mark.parametrize("dtype", [RECORD, np.dtype([("n", np.int64)]), np.dtype("V8")])
def test_records_of_other_libraries_keep_their_fields(cuda, dtype):
    from numba.cuda.testing import ForeignArray

    same = cuda.as_cuda_array(ForeignArray(cuda.to_device(np.zeros(3, dtype))))
    assert same.dtype.fields == dtype.fields and same.dtype.itemsize == dtype.itemsize
