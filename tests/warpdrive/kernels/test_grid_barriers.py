"""Barriers of the grid: on the CPU, in the debugger, in the checks, and as code for GPUs."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from numba import cuda, float32, int32

import warpdrive as wd
from warpdrive.backends.cpu.launch import bind
from warpdrive.backends.host.workers import get_num_threads, set_num_threads
from warpdrive.checks.environment import CheckingBackend
from warpdrive.checks.findings import Report
from warpdrive.kernels.errors import KernelError
from warpdrive.kernels.fusion import Fusion


@wd.kernel
def rows(m):  # each element follows from one that another block wrote in the row before
    column = cuda.grid(1)
    grid = cuda.cg.this_grid()
    for row in range(1, m.shape[0]):
        m[row, column] = m[row - 1, m.shape[1] - 1 - column] + 1
        grid.sync()


def meet(group, values, place):
    values[place] += 1
    group.sync()
    return values[(place + 5) % values.size]


@wd.kernel
def in_functions(values, out):
    i = cuda.grid(1)
    total = meet(cuda.cg.this_grid(), values, i)
    cuda.cg.this_grid().sync()
    total += 10 * meet(cuda.cg.this_grid(), values, i)
    out[i] = total


@wd.kernel
def prefix_sums(values, sums, levels):  # shared and local memory, and variables of threads, outlive barriers
    kept = cuda.shared.array(4, int32)
    own = cuda.local.array(2, int32)
    grid = cuda.cg.this_grid()
    t, i = cuda.threadIdx.x, cuda.grid(1)
    kept[t] = values[i]
    own[0], own[1] = i, values[i]
    cuda.syncthreads()
    neighbour = kept[t ^ 1]
    below = cuda.shfl_up_sync(0xFFFFFFFF, own[1], 1)
    sums[i] = values[i]
    grid.sync()
    step = 1
    while step < sums.size:
        left = sums[i - step] if i >= step else 0
        grid.sync()
        sums[i] += left
        grid.sync()
        step *= 2
    levels[i, 0] = neighbour - kept[t ^ 1]
    levels[i, 1] = own[0] - i
    levels[i, 2] = below if t else 0
    levels[i, 3] = cuda.syncthreads_count(own[1] > 3)


@wd.kernel
def until_settled(values, changed):  # the number of rounds depends on the data
    i = cuda.grid(1)
    grid = cuda.cg.this_grid()
    rounds = 0
    while True:
        left = values[max(i - 1, 0)]
        grid.sync()
        if i == 0:
            changed[0] = 0
        grid.sync()
        if left > values[i]:
            values[i] = left
            changed[0] = 1
        grid.sync()
        rounds += 1
        if changed[0] == 0:
            break
        grid.sync()
    changed[1] = rounds


@wd.kernel
def branches(x, twice):
    i = cuda.grid(1)
    x[i] = i
    if twice:
        cuda.cg.this_grid().sync()
        other = x[x.size - 1 - i]
        cuda.cg.this_grid().sync()
        x[i] = other
    else:
        x[i] = -i
    dynamic = cuda.shared.array(0, float32)
    dynamic[cuda.threadIdx.x] = x[i]
    cuda.cg.this_grid().sync()
    x[i] += dynamic[cuda.blockDim.x - 1 - cuda.threadIdx.x]


@wd.kernel
def tickets(order, numbers, sums):  # blocks wait for each other in turn, and then meet
    block, thread = cuda.blockIdx.x, cuda.threadIdx.x
    if thread == 0:
        while cuda.atomic.add(order, 0, 0) != block:
            pass
        numbers[block] = numbers[max(block - 1, 0)] + block
        cuda.threadfence()
        cuda.atomic.add(order, 0, 1)
    cuda.cg.this_grid().sync()
    if thread == 1 and block == 2:
        return
    cuda.syncthreads()
    own = numbers[cuda.gridDim.x - 1 - block]
    cuda.cg.this_grid().sync()
    sums[block, thread] = own


@pytest.fixture(params=[1, 3], ids=["one core", "three cores"])
def cores(request):
    before = get_num_threads()
    set_num_threads(request.param)
    yield
    set_num_threads(before)


@pytest.mark.parametrize("run", [lambda kernel: kernel, wd.debug], ids=["compiled", "debugger"])
def test_blocks_meet(run, cores):
    for blocks, threads in ((5, 4), (20, 1)):
        m = np.zeros((6, 20), np.int32)
        run(rows)[blocks, threads](m)
        np.testing.assert_array_equal(m, np.repeat(np.arange(6), 20).reshape(6, 20))

    values, out = np.zeros(12, np.int32), np.zeros(12, np.int32)
    run(in_functions)[3, 4](values, out)
    np.testing.assert_array_equal(out, 21)

    values = np.arange(12, dtype=np.int32)[::-1].copy()
    sums, levels = np.zeros(12, np.int32), np.full((12, 4), -1, np.int32)
    run(prefix_sums)[3, 4](values, sums, levels)
    np.testing.assert_array_equal(sums, np.cumsum(values))
    np.testing.assert_array_equal(levels[:, :2], 0)
    np.testing.assert_array_equal(levels[:, 2], np.where(np.arange(12) % 4, np.roll(values, 1), 0))
    np.testing.assert_array_equal(levels[:, 3], np.repeat((values > 3).reshape(3, 4).sum(1), 4))

    values, changed = np.zeros(9, np.int32), np.zeros(2, np.int32)
    values[2] = 7
    run(until_settled)[3, 3](values, changed)
    np.testing.assert_array_equal(values, [0, 0, 7, 7, 7, 7, 7, 7, 7])
    assert changed[1] == 7  # six rounds move the maximum to the end, and one finds that nothing changes

    i = np.arange(6, dtype=np.float32)
    for twice, before in ((True, 5 - i), (False, -i)):
        x = np.zeros(6, np.float32)
        run(branches)[2, 3, 0, 12](x, twice)
        np.testing.assert_array_equal(x, before + before.reshape(2, 3)[:, ::-1].ravel())


def test_many_blocks_in_three_dimensions(cores):
    @wd.kernel
    def swap(x, y):
        here = cuda.grid(3)
        x[here] = here[0] + 100 * here[1] + 10000 * here[2]
        cuda.cg.this_grid().sync()
        y[here] = x[x.shape[0] - 1 - here[0], x.shape[1] - 1 - here[1], x.shape[2] - 1 - here[2]]

    x, y = np.zeros((2, 20, 60, 40), np.int64)
    swap[(10, 20, 40), (2, 3, 1)](x, y)
    first, second, third = np.indices(x.shape)
    np.testing.assert_array_equal(x, first + 100 * second + 10000 * third)
    np.testing.assert_array_equal(y, x[::-1, ::-1, ::-1])


def test_blocks_that_also_wait_in_loops():
    numbers, sums = np.zeros(5, np.int32), np.full((5, 3), -1, np.int32)
    tickets[5, 3](np.zeros(1, np.int32), numbers, sums)
    np.testing.assert_array_equal(numbers, [0, 1, 3, 6, 10])
    sums[2, 1] = 3  # this thread has left
    np.testing.assert_array_equal(sums, np.repeat(numbers[::-1], 3).reshape(5, 3))
    many = 70_000, 1
    with pytest.raises(KernelError, match="as at most 65536 threads run at once"):
        tickets[many](np.zeros(1, np.int32), np.zeros(many[0], np.int32), np.zeros(many, np.int32))


def test_exception_ends_the_launch(cores):
    @wd.kernel
    def fails(x):
        cuda.cg.this_grid().sync()
        if cuda.blockIdx.x == 1:
            raise ValueError("too much")
        cuda.cg.this_grid().sync()
        x[cuda.grid(1)] = 1

    with pytest.raises(KernelError, match="ValueError: too much"):
        fails[4, 2](np.zeros(8))


def test_checks_know_that_grid_barriers_order_memory():
    m = np.zeros((4, 6), np.int32)
    assert wd.check_launch(rows, 3, 2, m).clean
    values, sums = np.zeros((2, 12), np.int32)
    assert wd.check_launch(prefix_sums, 3, 4, values, sums, np.zeros((12, 4), np.int32)).clean

    def too_few(x, y):
        i = cuda.grid(1)
        x[i] = i
        cuda.cg.this_grid().sync()
        y[i] = x[(i + 2) % x.size]
        x[i] = -1

    (race,) = wd.check_launch(too_few, 3, 2, *np.zeros((2, 6), np.int32)).races
    assert race.array == "x" and race.blocks == (0, 1)

    def only_some(x):
        if cuda.blockIdx.x > 0:
            cuda.cg.this_grid().sync()
        x[cuda.grid(1)] = 1

    (found,) = wd.check_launch(only_some, 3, 2, np.zeros(6)).divergence
    assert found.blocks == (1, 0) and "barrier of the grid" in found.message

    def never(x):
        while x[0] == 0:
            cuda.cg.this_grid().sync()
            x[cuda.grid(1) + 1] += 1

    assert wd.check_launch(never, 2, 1, np.zeros(3), max_steps=100).endless


def test_compiles_for_gpus():
    compile_kernel = pytest.importorskip("warpdrive.backends.numba_cuda.compile").compile_kernel
    from warpdrive.backends.numba_cuda.arguments import argument
    from warpdrive.backends.shared.arguments import resolved_for

    for kernel, arrays in ((rows, [np.zeros((4, 4), np.int32)]), (in_functions, list(np.zeros((2, 6), np.int32)))):
        arguments = [
            argument(name, SimpleNamespace(__cuda_array_interface__=array.__array_interface__ | {"version": 3}), "k")
            for name, array in zip(kernel.parameters, arrays, strict=True)
        ]
        parameters = [known.parameter for known in arguments]
        resolved = resolved_for(kernel, {}, {parameter.name: parameter.kind for parameter in parameters})
        code = compile_kernel(resolved, parameters, None, (8, 0))
        assert code.is_cooperative and code.ptx.count("cudaCGSynchronize") > 1


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (lambda x: cuda.cg.this_grid().sync(x), "takes no arguments"),
        (lambda x: cuda.cg.this_grid().size, "cg.grid.size is not part"),
        (lambda x: cuda.cg.this_block().sync(), "Did you mean 'this_grid'"),
    ],
)
def test_refusals(kernel, message):
    def caller(x):
        kernel(x)

    with pytest.raises(KernelError, match=message):
        wd.kernel(caller)[1, 1](np.zeros(1))


def test_environments_reject_them():
    prepare = pytest.importorskip("warpdrive.backends.numba_cuda.fused").prepare
    for compile_for_environment in (
        lambda: bind(rows, {"m": np.zeros((3, 4), np.int32)}, 3, 4),
        lambda: prepare(rows, {"m": torch.zeros(3, 4, dtype=torch.int32)}, 3),
        lambda: CheckingBackend(Report()).bind(Fusion.of(rows), {"m": np.zeros((3, 4), np.int32)}, 3, 4),
    ):
        with pytest.raises(KernelError, match="cannot be used in an environment: its blocks are replicas"):
            compile_for_environment()


def test_overloads_know_whether_blocks_can_wait():
    from warpdrive.numba_cuda import cuda as without_gpu

    def inner(grid):
        grid.sync()

    def caller(x):
        inner(cuda.cg.this_grid())

    signature = "void(float64[:])"
    (cooperative,) = without_gpu.jit(signature)(caller).overloads.values()
    (other,) = without_gpu.jit(signature)(without_grid).overloads.values()
    assert cooperative.cooperative and not other.cooperative
    counts = {cooperative.max_cooperative_grid_blocks(block) for block in (256, (16, 16), (16, 4, 4))}
    assert len(counts) == 1 and counts.pop() > 1


def without_grid(x):
    x[0] = math.sqrt(x[1])
