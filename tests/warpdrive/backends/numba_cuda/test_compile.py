"""Kernels become GPU code without a GPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numba import cuda

import warpdrive as wd
from warpdrive.backends.cuda.packing import Packing
from warpdrive.backends.numba_cuda.compile import compile_kernel
from warpdrive.backends.numba_cuda.fused import prepare
from warpdrive.backends.numba_cuda.parameters import words_of
from warpdrive.backends.shared import cache
from warpdrive.kernels.errors import KernelError

CAPABILITY = (9, 0)


class Compiler:
    """A backend that compiles for GPUs, and launches nothing."""

    name, language, device = "compiler", "Python", torch.device("cpu")

    def __init__(self):
        self.codes = {}

    def bind(self, fusion, arguments, blocks, threads):
        fused = prepare(fusion.kernel(), arguments, blocks)
        assert 8 * len(words_of(fused.parameters)) < 4096, "as many bytes as a launch takes on every GPU"
        packing = Packing.of(threads, fused.shared_bytes)
        self.codes[fusion.name] = compile_kernel(fused.kernel, fused.parameters, packing, CAPABILITY)
        return lambda: None


def test_environments_compile_for_gpus_and_compute_in_float32():
    """With two agents for each thread, and a state for critics.

    ``tests/envs/test_state_hashes.py`` has all environments, with an agent for each thread.
    """
    compiler = Compiler()
    environment = wd.make("tag_gridworld", num_taggers=1099, use_full_observation=False)
    environment.global_state = ("timestep", "rewards")
    wd.EnvWrapper(environment, 7, compiler).allocate_rollout(4, global_state=True)
    assert len(compiler.codes) == 2
    for kernel, code in compiler.codes.items():
        assert ".target sm_90" in code.ptx
        assert ".f64" not in code.ptx, f"{kernel} computes in float64"
        assert code.image[:4] == b"\x7fELF"
        assert code.resources is not None and 0 < code.resources.registers <= 255


@wd.kernel
def scale(x, factor):
    x[cuda.blockIdx.x, cuda.threadIdx.x] *= factor


def compiled(kernel, replicas=9, capability=(9, 0), **arguments):
    fused = prepare(kernel, arguments, replicas)
    agents = next(iter(arguments.values())).shape[1]
    return compile_kernel(fused.kernel, fused.parameters, Packing.of(agents, fused.shared_bytes), capability)


def test_code_does_not_depend_on_the_number_of_replicas():
    codes = {compiled(scale, n, x=torch.zeros(n, 5), factor=np.float32(2)).ptx for n in (1, 9, 1000)}
    assert len(codes) == 1


def test_code_is_found_again_on_disk(monkeypatch):
    first = compiled(scale, x=torch.zeros(9, 6), factor=np.float32(2))
    monkeypatch.setattr("warpdrive.backends.numba_cuda.compile._compile", None)
    assert compiled(scale, x=torch.zeros(9, 6), factor=np.float32(2)) == first
    with pytest.raises(TypeError):
        compiled(scale, x=torch.zeros(9, 7), factor=np.float32(2))


def test_damaged_code_is_compiled_anew(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.CACHE_VARIABLE, str(tmp_path))
    first = compiled(scale, x=torch.zeros(9, 6), factor=np.float32(2))
    (stored,) = cache.cache_folder().glob("*/kernel.json")
    stored.write_text("{")
    assert compiled(scale, x=torch.zeros(9, 6), factor=np.float32(2)).resources == first.resources
    assert stored.read_text() != "{"


@wd.kernel
def multiplies_and_adds(x, factor):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    x[env, agent] = x[env, agent] * factor + factor


@pytest.mark.parametrize("capability", [(8, 0), CAPABILITY])
def test_products_and_sums_are_rounded_each_for_itself_as_on_a_cpu(capability):
    ptx = compiled(multiplies_and_adds, capability=capability, x=torch.zeros(9, 6), factor=np.float32(2)).ptx
    assert ".target sm_{}{}".format(*capability) in ptx
    assert "mul.rn.f32" in ptx and "add.rn.f32" in ptx, "without .rn, they may still be contracted"
    assert "fma" not in ptx


@wd.kernel
def counts(x):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    x[env, agent] += 1
    positive = cuda.syncthreads_count(x[env, agent] > 0)
    x[env, agent] = x[env, (agent + 1) % 4] + positive


@wd.kernel
def goes_round(x):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    while x[env, agent] > 0:
        neighbour = x[env, (agent + 1) % 4]
        cuda.syncthreads()
        x[env, agent] = neighbour - 1
        cuda.syncthreads()
    x[env, agent] = x[env, (agent + 2) % 4]


@pytest.mark.parametrize("kernel", [counts, goes_round], ids=lambda kernel: kernel.__name__)
def test_lanes_that_vote_wait_for_each_others_memory(kernel):
    """A vote of lanes orders no accesses to memory, unlike ``syncthreads_count``: a barrier follows."""
    ptx = compiled(kernel, x=torch.zeros(9, 4, dtype=torch.int32)).ptx
    behind = ptx[ptx.rindex("vote.sync") :]
    memory = [word for word in ("bar.warp.sync", "ld.global") if word in behind]
    assert memory and min(memory, key=behind.index) == "bar.warp.sync", behind


@wd.kernel
def shares(x, size):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    first = cuda.shared.array(size, np.float32)
    second = cuda.shared.array(3, np.int8)
    first[agent] = second[agent] = x[env, agent]
    cuda.syncthreads()
    x[env, agent] = first[agent - 1] + second[agent - 1]


@pytest.mark.parametrize(("size", "replicas"), [(1, 20), (400, 20), (1200, 10), (3000, 1), (12_000, 1)])
def test_as_many_replicas_share_a_block_as_their_shared_memory_lets(size, replicas):
    code = compiled(shares, x=torch.zeros(9, 3), size=np.int32(size))
    assert 0 <= code.resources.shared_bytes - replicas * (4 * size + 3) < 16
    assert ("bar.sync" if replicas == 1 else "bar.warp.sync") in code.ptx


def test_more_shared_memory_than_a_block_has_is_told():
    line = shares.function.__code__.co_firstlineno + 1
    with pytest.raises(
        KernelError, match=rf"test_compile.py:{line}: kernel 'shares' cannot run on any GPU: .*too much shared data"
    ):
        compiled(shares, x=torch.zeros(9, 3), size=np.int32(20_000))


@wd.kernel
def shares_what_a_launch_says(x):
    cuda.shared.array(0, np.float32)[cuda.threadIdx.x] = x[cuda.blockIdx.x, cuda.threadIdx.x]


def test_shared_memory_that_nobody_gives_is_told():
    with pytest.raises(KernelError, match="has shared memory of dynamic size"):
        compiled(shares_what_a_launch_says, x=torch.zeros(9, 3))


@wd.kernel
def has_no_such_thing(x):
    env = cuda.blockIdx.x
    x[env, 0] = x.imaginary()


@wd.kernel
def sorts(x):
    x[cuda.blockIdx.x].sort()


def test_what_cannot_be_compiled_is_told_where_the_author_wrote_it():
    line = has_no_such_thing.function.__code__.co_firstlineno + 3
    with pytest.raises(KernelError, match=rf"test_compile.py:{line}: kernel 'has_no_such_thing' cannot be compiled: "):
        compiled(has_no_such_thing, x=torch.zeros(9, 3))
    line = sorts.function.__code__.co_firstlineno + 1  # numba.cuda does not say where it found this
    with pytest.raises(KernelError, match=rf"test_compile.py:{line}: kernel 'sorts' cannot be compiled: .*array.sort"):
        compiled(sorts, x=torch.zeros(9, 3))


@wd.kernel
def has_a_function_too_few(x):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    x[env, agent] = np.spacing(x[env, agent])


def test_a_function_of_numpy_that_gpus_lack_is_told():
    with pytest.raises(KernelError, match=r"has_a_function_too_few' cannot be compiled: numba.cuda has no np.spacing"):
        compiled(has_a_function_too_few, x=torch.zeros(9, 3))


@wd.kernel
def keeps_a_view(x):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    row = x[env, agent:]
    cuda.syncthreads()
    row[0] = 1


def test_what_agents_beyond_1024_cannot_keep_is_told():
    assert compiled(keeps_a_view, x=torch.zeros(9, 30)).image
    with pytest.raises(KernelError, match="'row' is a view, a tuple, a vector or a record that is used after"):
        compiled(keeps_a_view, x=torch.zeros(9, 2000))
