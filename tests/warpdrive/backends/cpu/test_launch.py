"""Launching kernels: configurations, kinds of arguments, and what is refused."""

from __future__ import annotations

import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from numba import cuda

import warpdrive as wd


@wd.kernel
def scale(array, factor):
    i = cuda.grid(1)
    if i < array.shape[0]:
        array[i] *= factor


@wd.kernel
def fill(array, value):
    for i in range(array.shape[0]):
        for j in range(array.shape[1]):
            array[i, j] = value + 10 * i + j


@wd.kernel
def remember(out, length):
    memory = cuda.local.array(length, np.int32)
    memory[length - 1] = 5
    out[0] = memory[length - 1] + length


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64", "float32", "float64", "complex64"]
)
def test_arrays_of_every_dtype(dtype):
    array = np.arange(6).astype(dtype)
    scale[2, 3](array, 2)
    np.testing.assert_array_equal(array, np.arange(6) * 2)


def test_tensors_are_written_in_place():
    tensor = torch.arange(6.0, requires_grad=False)
    parameter = torch.nn.Parameter(torch.ones(6))
    scale[1, 6](tensor, 2.0)
    scale[1, 6](parameter, 3.0)
    assert tensor.tolist() == [0, 2, 4, 6, 8, 10] and parameter.tolist() == [3] * 6


def test_a_tensor_that_got_new_memory_is_written_where_it_is_now():
    tensor, other = torch.ones(4), torch.full((4,), 5.0)
    scale[1, 4](tensor, 2.0)
    old = tensor.data
    tensor.data = other
    scale[1, 4](tensor, 2.0)
    assert tensor.tolist() == [10] * 4 and old.tolist() == [2] * 4


@pytest.mark.parametrize(
    "view",
    [
        lambda base: base,
        lambda base: base.T,
        lambda base: base[::2, 1:],
        lambda base: base[::-1, ::-1],
        lambda base: base[:0],
        lambda base: np.asfortranarray(base),
        lambda base: np.broadcast_to(base[:1], (1, 6)).copy(),
    ],
    ids=["C", "transposed", "strided", "reversed", "empty", "F", "one row"],
)
def test_arrays_of_every_layout(view):
    array = view(np.zeros((4, 6)))
    fill[1, 1](array, 3)
    across, along = np.indices(array.shape)
    np.testing.assert_array_equal(array, 3 + 10 * across + along)
    tensor = torch.zeros(4, 6).T
    fill[1, 1](tensor, 3)
    assert tensor[5, 3] == 3 + 50 + 3


@pytest.mark.parametrize("factor", [2, 2.0, True, np.float32(2), np.int8(2), np.bool_(True)], ids=repr)
def test_numbers_of_every_type(factor):
    array = np.ones(3)
    scale[1, 3](array, factor)
    assert array.tolist() == [float(factor)] * 3


def test_an_array_without_dimensions_is_memory():
    @wd.kernel
    def kernel(total, amount):
        total[()] += amount

    total = np.array(4.0)
    kernel[1, 2](total, 0.5)
    assert total == 5


def test_shapes_of_local_arrays_are_compiled_in_for_each_value():
    out = np.zeros(1)
    for length in (3, 4, 3, 3, np.int16(4)):
        remember[1, 1](out, length)
        assert out[0] == 5 + length


def test_lengths_stand_anywhere_among_the_arguments():
    @wd.kernel
    def kernel(first, length, out, last):
        memory = cuda.local.array(length, np.int32)
        memory[length - 1] = first
        out[0] = 100 * memory[length - 1] + 10 * length + last

    out = np.zeros(1)
    for first, length, last in [(3, 5, 7), (5, 3, 7), (7, 5, 3), (5, 7, 3), (3, 5, 3)]:
        kernel[1, 1](first, length, out, last)
        assert out[0] == 100 * first + 10 * length + last


def test_the_same_kernel_with_other_arguments_each_time():
    """Nothing of one launch may be left in the next."""
    arrays = [np.ones(3), np.ones(5, np.float32), np.ones(3), torch.ones(3)]
    for factor in (2, 3.0):
        for array in arrays:
            scale[1, 5](array, factor)
    assert all(array.tolist() == [6] * len(array) for array in arrays)


@wd.kernel
def measure(out, array, number):
    """Write down all that is known of the arguments."""
    out[0] = array.shape[0]
    out[1] = array.shape[1]
    out[2] = array[array.shape[0] - 1, array.shape[1] - 1]
    out[3] = number * 0.5


def measured(array, number=2):
    out = np.zeros(4)
    measure[1, 1](out, array, number)
    return out.tolist()


def test_one_array_that_changes_between_launches_is_read_anew():
    array = np.zeros((2, 3))
    array.flat = range(6)
    assert measured(array) == [2, 3, 5, 1]
    array.shape = (3, 2)
    assert measured(array) == [3, 2, 5, 1]
    array.resize((500, 300), refcheck=False)  # moves it
    array[-1, -1] = 8
    assert measured(array) == [500, 300, 8, 1]
    array.dtype = np.int64
    array[-1, -1] = 9
    assert measured(array) == [500, 300, 9, 1]
    array.flags.writeable = False
    assert measured(array) == [500, 300, 9, 1]
    with pytest.raises(wd.errors.WarpDriveError, match="read-only"):
        measure[1, 1](array[0], array, 2)


def test_kinds_of_arguments_in_turns():
    """A launch takes over what it knows of one before only if the arguments are of the very same kinds."""

    class Subclass(np.ndarray):
        pass

    base = np.arange(12.0).reshape(3, 4)
    views = [base, base.T, base[::2, ::2], base.astype(np.float32), base.astype("i1"), torch.from_numpy(base)]
    views += [torch.ones(3, 4), torch.nn.Parameter(torch.ones(2, 2)), base.view(Subclass)]
    numbers = [2, 2.0, np.float32(0.5), np.int8(3), True, 2**63, -2, 2**62, np.uint64(2**63)]
    for _ in range(3):
        for view in views:
            last = view[-1, -1].item()
            assert measured(view) == [*view.shape, last, 1]
        for number in numbers:
            assert measured(base, number) == [3, 4, 11, float(number) / 2]
    with pytest.raises(wd.errors.WarpDriveError, match="more than 64 bits"):
        measured(base, 2**64)


def test_more_kinds_than_a_launcher_remembers():
    arrays = [np.ones(2, dtype) for dtype in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")]
    for factor in (2, 3, 4):
        for array in arrays:
            scale[1, 2](array, factor)
    assert all(array.tolist() == [24, 24] for array in arrays)


def test_nothing_keeps_the_arguments_of_a_launch():
    arrays = [np.ones(3), np.ones(3)]
    for array in arrays:
        scale[1, 3](array, 2)
    dead = [weakref.ref(array) for array in arrays]
    del array, arrays
    assert all(ref() is None for ref in dead)
    tensor = torch.ones(3)
    for _ in range(2):
        scale[1, 3](tensor, 2)
    dead = [weakref.ref(tensor.untyped_storage())]
    del tensor
    assert dead[0]() is None


def test_a_launch_in_the_middle_of_a_launch():
    """Such as by a signal's handler, or by what is done when an object is no longer needed."""

    class Launching(torch.Tensor):
        def numpy(self):
            inner = torch.ones(3)
            scale[1, 3](inner, 5.0)
            found.append(inner.tolist())
            return super().numpy()

    found, outer = [], torch.ones(3).as_subclass(Launching)
    for _ in range(3):
        scale[1, 3](outer, 2.0)
    assert outer.tolist() == [8] * 3
    assert len(found) >= 3 and all(inner == [5] * 3 for inner in found)


@wd.kernel
def rotate_often(array, rounds):
    i, n = cuda.threadIdx.x, cuda.blockDim.x
    for _ in range(rounds):
        x = array[cuda.blockIdx.x, (i + 1) % n]
        cuda.syncthreads()
        array[cuda.blockIdx.x, i] = x
        cuda.syncthreads()


def test_several_python_threads_may_launch_one_kernel():
    def work(seed):
        dtype = (np.float32, np.float64)[seed % 2]
        array = np.random.default_rng(seed).random((30, 20), dtype)
        expected = np.roll(array, -50, axis=1)
        for _ in range(50):
            rotate_often[30, 20](array, 1)
            array = array.copy()
        return np.array_equal(array, expected)

    rotate_often[30, 20](np.zeros((30, 20)), 1)
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        (4, r"launched as k\[blocks, threads\]"),
        ((1, 2, 0, 0, 0), r"launched as k\[blocks, threads\]"),
        ((0, 4), "positive number of blocks"),
        ((4, -1), "positive number of threads"),
        ((1, 2.0), "positive number of threads"),
        (((1, 1, 1, 1), 1), "positive number of blocks"),
        (((), 1), "positive number of blocks"),
        (("4", 1), "positive number of blocks"),
    ],
    ids=str,
)
def test_a_wrong_configuration_is_refused(configuration, message):
    with pytest.raises(wd.errors.WarpDriveError, match=message):
        scale[configuration](np.ones(3), 2)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1, 2], "'array' of kernel 'scale' is a list"),
        ("text", "'array' of kernel 'scale' is a str"),
        (np.array([1, None]), "has dtype object, which the CPU backend does not support"),
        (np.ones(3).astype(">f8"), "which the CPU backend does not support"),
        (np.zeros(2, [("x", "i4"), ("thing", "O")]), "which the CPU backend does not support"),
        (np.zeros(2, [("x", "i4"), ("long", "g")]), "which the CPU backend does not support"),
        (np.array(["a"]), r"kernel 'scale' cannot be compiled: \*= does not work on a string and int64"),
        (np.zeros(3, np.longdouble), r"has dtype \w+, which the CPU backend does not support"),
        (torch.ones(3, dtype=torch.bfloat16), "'array' of kernel 'scale' has dtype torch.bfloat16"),
        (torch.eye(3).to_sparse(), "'array' of kernel 'scale'"),
        (2**64, "is 18446744073709551616, which has more than 64 bits"),
    ],
    ids=lambda value: type(value).__name__ + str(getattr(value, "dtype", "")),
)
def test_a_wrong_argument_is_refused(value, message):
    with pytest.raises(wd.errors.WarpDriveError, match=message):
        scale[1, 3](value, 2)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_tensor_on_a_gpu_is_refused():
    with pytest.raises(wd.errors.WarpDriveError, match="is on cuda:0, not the CPU"):
        scale[1, 3](torch.ones(3, device="cuda"), 2)


@pytest.mark.parametrize("arguments", [(), (np.ones(3),), (np.ones(3), 1, 2)], ids=len)
def test_a_wrong_number_of_arguments_is_refused(arguments):
    with pytest.raises(wd.errors.WarpDriveError, match=rf"takes 2 arguments \(array, factor\), found {len(arguments)}"):
        scale[1, 3](*arguments)


def test_a_read_only_array_cannot_be_written():
    array = np.ones(3)
    array.flags.writeable = False
    with pytest.raises(wd.errors.WarpDriveError, match=r"test_launch.py:\d+.*read-only"):
        scale[1, 3](array, 2)


@pytest.mark.parametrize("length", [2.5, "3", np.array([3, 4])], ids=repr)
def test_a_length_that_is_no_integer_is_refused(length):
    with pytest.raises(wd.errors.WarpDriveError, match=r"'length' determines the shape .* must be an integer, found"):
        remember[1, 1](np.zeros(1), length)


@pytest.mark.parametrize("length", [0, -2])
def test_a_length_that_is_not_positive_is_refused(length):
    with pytest.raises(wd.errors.WarpDriveError, match=r"test_launch.py:\d+.*positive integers"):
        remember[1, 1](np.zeros(1), length)


def test_a_kernel_is_not_called_like_a_function():
    with pytest.raises(wd.errors.WarpDriveError, match=r"launched as k\[blocks, threads\]"):
        scale(np.ones(3), 2)
