"""``cuda.jit`` in all its forms, and launches; results are compared with NumPy."""

from __future__ import annotations

import enum
import math
import pickle

import numba
import numpy as np
import pytest
from numba import float32, int32, void
from numba.core.errors import TypingError

import warpdrive as wd


@pytest.fixture(scope="module")
def scale(cuda):
    @cuda.jit
    def scale(values, factor):
        i = cuda.grid(1)
        if i < values.size:
            values[i] *= factor

    return scale


def scale_function(cuda):
    def scale(values, factor):
        i = cuda.grid(1)
        if i < values.size:
            values[i] *= factor

    return scale


@pytest.mark.parametrize(
    "decorate",
    [
        lambda cuda: cuda.jit(fastmath=True, lineinfo=True, max_registers=32, cache=True, inline="always"),
        lambda cuda: cuda.jit(debug=True, opt=False),
        lambda cuda: cuda.jit("void(float32[:], int32)"),
        lambda cuda: cuda.jit((float32[:], int32)),
        lambda cuda: cuda.jit(void(float32[::1], int32)),
        lambda cuda: cuda.jit(["(float64[:], int32)", "(float32[:], int32)"]),
    ],
)
def test_all_forms_of_the_decorator_give_a_kernel(cuda, decorate):
    values = np.arange(5, dtype=np.float32)
    decorate(cuda)(scale_function(cuda))[1, 32](values, 3.9)
    declared = "int32" in str(decorate(cuda)(scale_function(cuda)).signatures)
    np.testing.assert_allclose(values, np.arange(5) * (3 if declared else 3.9), rtol=1e-6)


def test_kernels_in_text_given_to_exec(cuda):
    names: dict[str, object] = {"cuda": cuda}
    exec("def twice(x):\n    return 2 * x\n\n\ndef double(values):\n    values[0] = twice(values[0])\n", names)
    exec("@cuda.jit\ndef negate(values):\n    values[0] = -values[0]\n", names)
    values = np.ones(1)
    cuda.jit(names["double"])[1, 1](values)
    names["negate"][1, 1](values)
    assert values == [-2]


def test_integers_are_seen_as_signed_as_declared(cuda):
    @cuda.jit("void(int32[:])")
    def negative(values):
        values[1] = values[0] < 0

    values = np.array([2**32 - 1, 5], np.uint32)
    negative[1, 1](values)
    assert values.tolist() == [2**32 - 1, 1]


def test_configurations_streams_and_tasks(cuda, scale):
    values = np.ones(100, np.float32)
    stream = cuda.stream()
    with stream.auto_synchronize():
        on_device = cuda.to_device(values, stream=stream)
        scale[(4, 1), [32, 1, 1], stream, 0](on_device, 2)
        scale[np.int64(4), 32, stream](on_device, 2)
        scale.configure(4, 32)(on_device, 2)
        scale.forall(100)(on_device, 2)
        scale.forall(0)(on_device, 100)
    assert (on_device.copy_to_host(stream=stream) == 16).all()
    assert (values == 1).all()


def test_dynamic_shared_memory_barriers_and_atomics(cuda):
    @cuda.jit
    def block_sums(values, total):
        shared = cuda.shared.array(0, float32)
        i = cuda.threadIdx.x
        shared[i] = values[cuda.grid(1)]
        cuda.syncthreads()
        step = cuda.blockDim.x // 2
        while step:
            if i < step:
                shared[i] += shared[i + step]
            cuda.syncthreads()
            step //= 2
        if i == 0:
            cuda.atomic.add(total, 0, shared[0])

    values, total = np.arange(256, dtype=np.float32), np.zeros(1, np.float32)
    block_sums[4, 64, 0, 64 * 4](values, total)
    assert total[0] == 255 * 128


def test_signatures_of_device_functions_convert(cuda):
    @cuda.jit("int32(int32, float32)", device=True)
    def truncated(x, y):
        x += 1
        return x * y

    @cuda.jit
    def fill(out):
        out[0] = truncated(2.75, 1.5)
        out[1] = truncated(y=2, x=-1)

    out = np.zeros(2)
    fill[1, 1](out)
    assert out.tolist() == [int((2 + 1) * 1.5), 0]


def test_overloads_are_those_that_were_launched(cuda, scale):
    kernel = cuda.jit(scale.py_func)
    assert not kernel.signatures
    kernel[1, 32](np.ones(3, np.float32), 2)
    kernel[1, 32](np.ones(3, np.float32), 2)
    kernel[1, 32](cuda.device_array(3), 2.0)
    array = numba.types.Array
    expected = [(array(float32, 1, "C"), numba.int64), (array(numba.float64, 1, "C"), numba.float64)]
    assert kernel.signatures == list(kernel.overloads) == expected
    assert set(kernel.get_regs_per_thread()) == set(expected)
    special = kernel.specialize(np.ones(3, np.float32), np.int32(2))
    assert special.signatures == [(array(float32, 1, "C"), int32)] and special.specialized
    with pytest.raises(RuntimeError, match="already specialized"):
        special.specialize(np.ones(3))
    assert special.definition.max_cooperative_grid_blocks((32, 2, 1)) > 0
    assert kernel.py_func.__name__ == kernel.__name__ == "scale"


def test_the_directions_of_arguments(cuda):
    @cuda.jit
    def increments(a, b, pair):
        a[0] += 1
        b[0] += 1
        pair[0][0] += 1

    a, b, c = (np.zeros(2) for _ in range(3))
    increments[1, 1](cuda.In(a), cuda.InOut(b), (cuda.to_device(c), 1))
    assert (a[0], b[0], c[0]) == (0, 1, 0)
    on_device = cuda.to_device(c)
    increments[1, 1](cuda.In(on_device), on_device, (on_device, 1))
    assert on_device[0] == 3


@pytest.mark.parametrize("direction", ["In", "Out", "InOut"])
def test_numbers_have_no_direction(cuda, scale, direction):
    with pytest.raises(TypeError, match=f"cuda.{direction} is for arrays: found an argument of type int"):
        scale[1, 1](np.ones(1), getattr(cuda, direction)(3))


def test_members_of_enumerations_are_arguments(cuda):
    class Color(enum.Enum):
        RED = 1
        BLUE = 2

    class Size(enum.IntEnum):
        LARGE = 10

    @cuda.jit
    def compare(one, other, size, out):
        out[0] = one == other
        out[1] = one is Color.BLUE
        out[2] = size + 1

    for one in Color:
        for other in Color:
            out = np.zeros(3)
            compare[1, 1](one, other, Size.LARGE, out)
            assert out.tolist() == [one is other, one is Color.BLUE, 11]


def test_extensions_convert_arguments(cuda, scale):
    class Boxed:
        def __init__(self, array):
            self.array = array

        _numba_type_ = property(lambda self: numba.typeof(self.array))

    class Unbox:
        def prepare_args(self, ty, val, stream, retr):
            if isinstance(val, Boxed):
                retr.append(lambda: seen.append(val.array.copy()))
                return ty, val.array
            return ty, val

    seen = []
    cuda.jit(scale.py_func, extensions=[Unbox()])[1, 32](Boxed(np.ones(2)), 5)
    assert [array.tolist() for array in seen] == [[5, 5]]


def test_kernels_are_pickled(cuda, scale):
    values = np.ones(4)
    pickle.loads(pickle.dumps(scale))[1, 4](values, 2)
    assert (values == 2).all()


def test_kernels_are_those_of_the_library_as_well(cuda, scale):
    values = np.ones(4)
    wd.debug(scale)[1, 4](values, 2)
    assert (values == 2).all()
    assert "out of bounds" not in str(wd.check_launch(scale, 1, 8, values, 2))


def test_exceptions_of_threads_are_of_the_classes_of_the_program(cuda):
    class OwnError(Exception):
        pass

    @cuda.jit
    def check(kind):
        if kind == 1:
            raise ValueError("a negative: number")
        if kind == 2:
            raise OwnError
        assert kind == 0

    check[1, 1](0)
    with pytest.raises(ValueError, match=r"a negative: number.*test_kernels\.py:"):
        check[1, 1](1)
    with pytest.raises(OwnError, match=r"test_kernels\.py:"):
        check[1, 1](2)
    with pytest.raises(AssertionError, match="kind == 0"):
        check[1, 1](3)


def test_mistakes_are_of_the_classes_that_programs_catch(cuda, scale):
    from numba.cuda.cudadrv.driver import CudaAPIError

    values = np.ones(4)
    for configuration in ((0, 32), (1, 0), (1, 1025), (1, (32, 64)), (2**31, 1), (1, (1, 1, 65))):
        with pytest.raises(CudaAPIError, match="INVALID_VALUE"):
            scale[configuration](values, 1)
    for configuration, error in (((1.5, 32), TypeError), ((None, 32), ValueError), (((1, 2, 3, 4), 1), ValueError)):
        with pytest.raises(error):
            scale[configuration]
    for mistake in (lambda: scale(values, 1), lambda: scale[1], lambda: scale.forall(-1)(values, 1)):
        with pytest.raises(ValueError):
            mistake()
    with pytest.raises(ValueError, match="not contiguous"):
        scale[1, 2](np.ones((4, 4))[:, 1], 1)
    with pytest.raises(TypeError, match="declared as"):
        cuda.jit("void(float32[:], int32)")(scale.py_func)[1, 2](np.ones(4), 1)
    with pytest.raises(TypeError, match="No matching definition"):
        cuda.jit(["void(float32[:], int32)", "void(int32[:], int32)"])(scale.py_func)[1, 2](np.ones(4), 1)
    with pytest.raises(RuntimeError, match="device function"):
        cuda.jit(device=True)(scale.py_func)[1, 2](values, 1)
    with pytest.raises(TypeError, match="void"):
        cuda.jit("float32(float32)")
    with pytest.raises(TypeError, match="only be used in a kernel"):
        cuda.grid(1)


def test_what_cannot_be_compiled_is_a_typing_error_of_numba_and_an_error_of_the_library(cuda):
    @cuda.jit
    def wrong(values):
        values[0] = math.sin("x")

    for kind in (TypingError, wd.KernelError):
        with pytest.raises(kind, match=r"test_kernels.py:\d+"):
            wrong[1, 1](np.ones(1))


def test_what_needs_a_gpu_is_refused_with_a_message(cuda):
    with pytest.raises(NotImplementedError, match=r"library.cu.*Python"):
        cuda.jit(link=["library.cu"])
    with pytest.raises(NotImplementedError, match=r"CUDA C"):
        cuda.declare_device("f", "float32(float32)")
    with pytest.raises(TypeError, match="Return type"):
        cuda.declare_device("f", "(float32,)")
    with pytest.raises(NotImplementedError, match="PTX"):
        cuda.jit(lambda: None).inspect_asm()
    with pytest.raises(cuda.cudadrv.error.NvvmSupportError, match="PTX"):
        cuda.compile_ptx(lambda: None, ())


def test_random_states_and_draws_are_those_of_numba(cuda):
    from numba.cuda.random import create_xoroshiro128p_states, init_xoroshiro128p_states, xoroshiro128p_dtype

    @cuda.jit
    def draw(states, uniform, double, normal):
        i = cuda.grid(1)
        uniform[i] = cuda.random.xoroshiro128p_uniform_float32(states, i)
        double[i] = cuda.random.xoroshiro128p_uniform_float64(states, i)
        normal[i] = cuda.random.xoroshiro128p_normal_float64(states, i)

    states = create_xoroshiro128p_states(3, seed=7, subsequence_start=1)
    assert states.dtype == xoroshiro128p_dtype
    found = states.copy_to_host()
    words = [_jumped(_seeded(7), times) for times in (1, 2, 3)]
    assert [tuple(map(int, state)) for state in found.tolist()] == words
    uniform, double, normal = np.zeros(3, np.float32), np.zeros(3), np.zeros(3)
    draw[1, 3](states, uniform, double, normal)
    for index, state in enumerate(words):
        draws = []
        for _ in range(4):
            draws.append((sum(state) % 2**64 >> 11) * 2.0**-53)
            state = _next(*state)
        assert (uniform[index], double[index]) == (np.float32(draws[0]), draws[1])
        first, second = (float(np.float32(value)) for value in draws[2:])
        expected = math.sqrt(-2 * math.log(first)) * math.cos(2 * math.pi * second)
        assert normal[index] == pytest.approx(expected, rel=1e-6)  # numba takes the logarithm in float32
        assert tuple(map(int, states.copy_to_host()[index].tolist())) == state
    init_xoroshiro128p_states(states, seed=7, subsequence_start=1)
    assert (states.copy_to_host() == found).all()


WORD = 2**64 - 1


def _seeded(seed):
    """Return the first output of SplitMix64, twice."""
    z = (seed + 0x9E3779B97F4A7C15) & WORD
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & WORD
    z = (z ^ z >> 27) * 0x94D049BB133111EB & WORD
    return z ^ z >> 31, z ^ z >> 31


def _next(s0, s1):
    """Return the state of xoroshiro128+ (55, 14, 36) after one step."""
    s1 ^= s0
    return ((s0 << 55 | s0 >> 9) & WORD) ^ s1 ^ (s1 << 14 & WORD), (s1 << 36 | s1 >> 28) & WORD


def _jumped(state, times):
    """Return a state 2**64 steps later, for a number of times."""
    for _ in range(times):
        t0 = t1 = 0
        for bit in range(128):
            if (0xD86B048B86AA9922 << 64 | 0xBEAC0467EBA5FACB) >> bit & 1:
                t0, t1 = t0 ^ state[0], t1 ^ state[1]
            state = _next(*state)
        state = t0, t1
    return state
