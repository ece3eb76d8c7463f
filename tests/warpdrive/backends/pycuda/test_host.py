"""CUDA C on the host: threads, barriers, shared memory and atomic functions behave as on a GPU."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from exhaustive import exhaustive

import warpdrive as wd
from warpdrive.backends.host.workers import get_num_threads, set_num_threads
from warpdrive.backends.pycuda import PyCudaBackend, host
from warpdrive.errors import BackendError, DefinitionError
from warpdrive.kernels.errors import KernelError

RING = f"{Path(__file__).parent / 'ring.py'}:Ring"


@pytest.fixture
def four_cores():
    before = get_num_threads()
    set_num_threads(4)
    yield
    set_num_threads(before)


# --- environments ---


@pytest.mark.parametrize(("num_hunters", "replicas"), exhaustive([(0, 13), (4, 40)], (4,)))
def test_an_environment_does_what_it_does_in_python(on_host, num_hunters, replicas):
    """Whole episodes with resets, sampled and recorded: every array of the two is the same, bit for bit."""
    wrappers = [
        wd.EnvWrapper(wd.make(RING, num_hunters=num_hunters), replicas, backend, seed=3, reset_pool_size=3)
        for backend in ("cpu", "pycuda")
    ]
    rollouts = [wrapper.allocate_rollout(20) for wrapper in wrappers]
    for _ in range(20):
        for wrapper, rollout in zip(wrappers, rollouts, strict=True):
            wrapper.step_rollout(rollout)
    python, cuda_c = (wrapper.ctx for wrapper in wrappers)
    assert python["episode.episodes"].min() >= 2
    for name in python:
        assert torch.equal(python[name], cuda_c[name]), name
    for name in ("observations", "actions", "rewards", "terminated", "truncated", "log_probabilities"):
        assert torch.equal(getattr(rollouts[0], name), getattr(rollouts[1], name)), name
    assert rollouts[0].rewards.abs().sum() > 0 or num_hunters == 0


@pytest.mark.parametrize("num_hunters", exhaustive([1, 7, 99], (7, 99)))
def test_steps_with_given_actions_do_what_numpy_does(on_host, num_hunters):
    environment = wd.make(RING, num_hunters=num_hunters, episode_length=100)
    wrapper = wd.EnvWrapper(environment, 7, "pycuda", seed=1)
    position, length = wrapper.ctx["position"].numpy().copy(), environment.ring_length
    catches = 0
    for actions in np.random.default_rng(0).integers(0, 3, (12, 7, num_hunters + 1)):
        observations, rewards, terminated, _, info = wrapper.step(actions)
        position = (position + actions - 1) % length
        caught = (position[:, :num_hunters] == position[:, num_hunters:]).any(axis=1)
        signs = np.array([1] * num_hunters + [-1], np.float32)
        assert np.array_equal(terminated, caught)
        assert np.array_equal(rewards, np.where(caught[:, None], signs * np.float32(1.5), 0))
        others = (np.arange(num_hunters + 1)[:, None] + np.arange(num_hunters + 1)) % (num_hunters + 1)
        seen = environment.angles[position[:, others]]
        assert np.array_equal(np.where(caught[:, None, None], info["final_observations"], observations), seen)
        position = wrapper.ctx["position"].numpy().copy()  # where an episode ended, another has begun
        catches += caught.sum()
    assert catches > 0


def test_an_environment_without_cuda_c_is_told_what_it_lacks(on_host):
    environment = wd.make(RING)
    environment.cuda_twins = {"step": environment.cuda_twins["step"]}
    with pytest.raises(DefinitionError, match=r"'observe' is Python \(.*ring.py:\d+\), and this backend runs CUDA C"):
        wd.EnvWrapper(environment, 2, "pycuda")


def test_an_environment_in_cuda_c_alone_runs_there_and_nowhere_else(on_host):
    environment = wd.make(RING)
    for role in ("step", "observe", "reset"):
        setattr(environment, role, environment.cuda_twins[role])
    assert wd.EnvWrapper(environment, 2, "pycuda").step(np.zeros((2, 5), int))[1].shape == (2, 5)
    with pytest.raises(DefinitionError, match=r"'step' is CUDA C \(.*ring.cu:\d+\).*env_backend='pycuda'"):
        wd.EnvWrapper(environment, 2, "cpu")


def test_types_are_checked_when_an_environment_is_bound(on_host, tmp_path):
    file = tmp_path / "wrong.cu"
    file.write_text("WD_KERNEL void step(const float *position) {}\nWD_KERNEL void observe(const int *positon) {}\n")
    environment = wd.make(RING)
    environment.cuda_twins = {**environment.cuda_twins, "step": wd.cuda_kernel(file, "step")}
    with pytest.raises(KernelError, match=r"wrong.cu:1: .*'const float \*position'.*holds int32: expected 'int \*"):
        wd.EnvWrapper(environment, 2, "pycuda")
    environment.cuda_twins = {**environment.cuda_twins, "step": wd.cuda_kernel(file, "observe")}
    with pytest.raises(KernelError, match=r"wrong.cu:2: parameter 'positon' .* is not bound.*'position'\?"):
        wd.EnvWrapper(environment, 2, "pycuda")


def test_a_constant_that_is_written_to_is_refused(on_host, tmp_path):
    file = tmp_path / "wrong.cu"
    file.write_text("WD_KERNEL void step(float *angles) { angles[0] = 1.0f; }\n")
    environment = wd.make(RING)
    environment.cuda_twins = {**environment.cuda_twins, "step": wd.cuda_kernel(file, "step")}
    with pytest.raises(
        KernelError, match=r"constant 'angles' holds float32 and may not be written to: expected 'const"
    ):
        wd.EnvWrapper(environment, 2, "pycuda")


def test_a_python_function_without_a_twin_is_told(on_host):
    @wd.kernel
    def mine(x):
        x[0] = 1

    from warpdrive.kernels.fusion import Fusion

    with pytest.raises(KernelError, match=r"test_host.py:\d+: 'mine' is in Python and has no twin in CUDA C"):
        PyCudaBackend().bind(Fusion.of(mine), {"x": torch.zeros(1)}, 1, 1)


# --- threads ---


def test_threads_and_blocks_are_agents_and_replicas(run):
    found = np.zeros((5, 3, 7), np.int32)
    run(
        """
        WD_KERNEL void step(int *found) {
            int *mine = found + wd_index(found, blockIdx.x, threadIdx.x);
            mine[0] = wd_env(); mine[1] = wd_agent(); mine[2] = blockDim.x; mine[3] = wd_num_agents();
            mine[4] = threadIdx.y + threadIdx.z + blockIdx.y; mine[5] = blockDim.y; mine[6] = wd_extent(found, 2);
        }""",
        5,
        3,
        found=found,
    )
    for env in range(5):
        for agent in range(3):
            assert found[env, agent].tolist() == [env, agent, 3, 3, 0, 1, 7]


def test_threads_wait_for_each_other_in_loops(run):
    """A scan in shared memory: each round reads what the others wrote in the one before."""
    numbers = np.random.default_rng(0).integers(0, 100, (3, 1024)).astype(np.int32)
    sums = np.zeros_like(numbers)
    run(
        """
        WD_KERNEL void step(const int *numbers, int *sums) {
            const int env = wd_env(), agent = wd_agent();
            WD_SHARED(int, partial, 2 * 1024);
            partial[agent] = numbers[wd_index(numbers, env, agent)];
            int from = 0;
            for (int distance = 1; distance < wd_num_agents(); distance *= 2) {
                wd_barrier();
                const int *before = partial + 1024 * from;
                partial[1024 * (1 - from) + agent] = before[agent] + (agent >= distance ? before[agent - distance] : 0);
                from = 1 - from;
            }
            sums[wd_index(sums, env, agent)] = partial[1024 * from + agent];
        }""",
        3,
        1024,
        numbers=numbers,
        sums=sums,
    )
    assert np.array_equal(sums, numbers.cumsum(axis=1))


def test_threads_keep_their_variables_while_they_wait(run):
    """Floating-point and integer variables, in functions that are called, over many barriers."""
    result = np.zeros((2, 50), np.float32)
    run(
        """
        __device__ float deeper(int depth, float x) {
            float here[4] = {x, x + 1.0f, x + 2.0f, x + 3.0f};
            wd_barrier();
            return depth == 0 ? here[3] : here[1] + deeper(depth - 1, x * 0.5f);
        }
        WD_KERNEL void step(float *result) {
            result[wd_index(result, wd_env(), wd_agent())] = deeper(6, wd_agent() + 100.0f * wd_env());
        }""",
        2,
        50,
        result=result,
    )

    def deeper(depth, x):
        return x + 3 if depth == 0 else x + 1 + deeper(depth - 1, x * 0.5)

    assert np.array_equal(result, [[np.float32(deeper(6, a + 100.0 * e)) for a in range(50)] for e in range(2)])


def test_votes_are_those_of_one_replica(run):
    numbers = np.random.default_rng(1).integers(0, 4, (9, 6)).astype(np.int32)
    votes = np.zeros((9, 6, 4), np.int32)
    run(
        """
        WD_KERNEL void step(const int *numbers, int *votes) {
            const int env = wd_env(), agent = wd_agent();
            const int mine = numbers[wd_index(numbers, env, agent)];
            int *found = votes + wd_index(votes, env, agent);
            found[0] = __syncthreads_count(mine == 2);
            found[1] = __syncthreads_or(mine == 3);
            found[2] = __syncthreads_and(mine < 3);
            found[3] = wd_barrier_count(mine);
        }""",
        9,
        6,
        numbers=numbers,
        votes=votes,
    )
    rows = zip(numbers, votes, strict=True)
    for row, found in rows:
        expected = [(row == 2).sum(), (row == 3).any(), (row < 3).all(), (row > 0).sum()]
        assert found.tolist() == [[int(vote) for vote in expected]] * 6


def test_what_an_author_declares_shared_is_one_replicas(run):
    shared = np.zeros((20, 4), np.int32)
    run(
        """
        WD_KERNEL void step(int *shared) {
            __shared__ int total;
            if (threadIdx.x == 0) total = 0;
            __syncthreads();
            atomicAdd(&total, blockIdx.x + threadIdx.x);
            __syncthreads();
            shared[wd_index(shared, blockIdx.x, threadIdx.x)] = total;
        }""",
        20,
        4,
        shared=shared,
    )
    assert np.array_equal(shared, np.repeat(4 * np.arange(20) + 6, 4).reshape(20, 4))


def test_atomic_functions_are_right_between_cores(run, four_cores):
    counts, reals = np.zeros(8, np.int32), np.zeros(2, np.float32)
    counts[2] = 1 << 30
    bits = np.zeros(3, np.uint32)
    bits[1] = 0xFFFFFFFF
    run(
        """
        WD_KERNEL void step(int *counts, float *reals, unsigned int *bits) {
            const int id = wd_env() * wd_num_agents() + wd_agent();
            atomicAdd(&counts[0], 1);
            atomicSub(&counts[1], 2);
            atomicMin(&counts[2], id - 500);
            atomicMax(&counts[3], id);
            int old = counts[4];
            while (true) {
                const int found = atomicCAS(&counts[4], old, old + 3);
                if (found == old) break;
                old = found;
            }
            if (atomicExch(&counts[5], 1) == 0) atomicAdd(&counts[6], 1);
            atomicAdd(&reals[0], 0.5f);
            atomicMax(&bits[0], (unsigned int)id);
            atomicAnd(&bits[1], ~(1u << id % 32));
            atomicOr(&bits[2], 1u << id % 31);
        }""",
        4000,
        5,
        counts=counts,
        reals=reals,
        bits=bits,
    )
    assert counts.tolist() == [20000, -40000, -500, 19999, 60000, 1, 1, 0]
    assert reals.tolist() == [10000, 0]
    assert bits.tolist() == [19999, 0, 0x7FFFFFFF]


def test_conversions_to_integers_saturate_as_on_a_gpu(run):
    given = np.array([2.5, -2.5, 3e9, -3e9, np.inf, -np.inf, np.nan, -(2.0**31)], np.float32)[:, None]
    found = np.zeros((8, 4), np.int32)
    run(
        """
        WD_KERNEL void step(const float *given, int *found) {
            const float x = given[wd_env()];
            int *own = found + wd_index(found, wd_env(), 0);
            own[0] = __float2int_rz(x); own[1] = __float2int_rn(x);
            own[2] = __float2int_rd(x); own[3] = __float2int_ru(x);
        }""",
        8,
        1,
        given=given,
        found=found,
    )
    most, least = 2**31 - 1, -(2**31)
    assert found[:2].tolist() == [[2, 2, 2, 3], [-2, -2, -3, -2]]
    assert found[2:, 0].tolist() == [most, least, most, least, 0, least]
    assert (found[2:] == found[2:, :1]).all()


def test_products_are_rounded_before_they_are_added(run):
    rng = np.random.default_rng(0)
    a, b, c = (rng.normal(size=(100, 1)).astype(np.float32) for _ in range(3))
    result = np.zeros_like(a)
    run(
        """
        WD_KERNEL void step(const float *a, const float *b, const float *c, float *result) {
            const int env = wd_env();
            result[env] = a[env] * b[env] + c[env];
        }""",
        100,
        1,
        a=a,
        b=b,
        c=c,
        result=result,
    )
    assert np.array_equal(result, a * b + c)


def test_numbers_and_constants_of_the_environment_are_passed(run):
    table = np.array([[1.5, 2.5, 3.5], [4.5, 5.5, 6.5]], np.float32)
    table.flags.writeable = False
    result = np.zeros((4, 1), np.float32)
    run(
        """
        #include <math.h>
        #define AT(array, ...) array[wd_index(array, __VA_ARGS__)]  // of whatever array
        WD_FUNCTION float doubled(float x) { return 2.0f * x; }
        WD_KERNEL void step(const float *table, float *result, int whole, float real, bool flag) {
            const int last = wd_extent(table, 1) - 1;
            result[wd_env()] = doubled(AT(table, 1, last)) + whole + real + (flag ? 100.0f : 0.0f);
        }""",
        4,
        1,
        table=table,
        result=result,
        whole=3,
        real=0.25,
        flag=True,
    )
    assert result.ravel().tolist() == [116.25] * 4


# --- barriers that not all threads reach ---

LEAVES = """
WD_KERNEL void step(int *x) {
    if (wd_agent() == 2) return;
    x[wd_index(x, wd_env(), wd_agent())] = 1;
    __syncthreads();
}"""
PARTS = """
WD_KERNEL void step(int *x) {
    if (wd_agent() < 2) {
        wd_barrier();
    } else {
        wd_barrier();
    }
}"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LEAVES, r"step.cu:5: thread \d of replica \d+ waits at this barrier, which thread 2 does not reach"),
        (PARTS, r"step.cu:4: thread 0 of replica \d+ waits at this barrier, and thread 2 at another one, .*step.cu:6"),
    ],
)
def test_a_barrier_that_not_all_threads_reach_is_told(run, text, message):
    with pytest.raises(KernelError, match=message):
        run(text, 10, 4, x=np.zeros((10, 4), np.int32))


def test_a_launch_after_a_failed_one_is_as_if_it_had_not_been(run, tmp_path):
    x, fails = np.zeros((10, 4), np.int32), np.ones(1, np.int32)
    text = LEAVES.replace("int *x", "int *x, const int *fails").replace("== 2", "== 2 && fails[0]")
    with pytest.raises(KernelError):
        run(text, 10, 4, x=x, fails=fails)
    fails[0] = 0
    run(text, 10, 4, x=x, fails=fails)
    assert x.all()


def test_a_barrier_that_nobody_reaches_is_no_mistake(run):
    x = np.zeros((10, 4), np.int32)
    run(LEAVES.replace("__syncthreads", "if (x[0] > 5) __syncthreads"), 10, 4, x=x)
    assert x.tolist() == [[1, 1, 0, 1]] * 10


def test_a_failed_assertion_is_told_with_its_line(run):
    text = "// without assert.h\nWD_KERNEL void step(int *x) {\n    assert(x[wd_env()] < 3);\n}"
    run(text, 2, 1, x=np.array([1, 2], np.int32))
    with pytest.raises(
        KernelError, match=r"step.cu:3: assertion 'x\[wd_env\(\)\] < 3' failed in thread 0 of replica 1"
    ):
        run(text, 2, 1, x=np.array([1, 3], np.int32))


# --- what cannot be compiled or run ---


def test_more_agents_than_a_block_has_threads_are_refused(run):
    with pytest.raises(KernelError, match=r"3000 agents: .* at most 1024"):
        run("WD_KERNEL void step(int *x) {}", 2, 3000, x=np.zeros((2, 3000), np.int32))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("    x[0] = y;", "'y' was not declared in this scope\n    x[0] = y;\n           ^"),
        ("    x[wd_index(z, 0)] = 1;", "wd_index(z, ...) takes the name of an array parameter"),
        ("    x[wd_index(x, 0, 0, 0, 0)] = 1;", "more indices than the array has axes"),
        ("    x[0] = wd_extent(x, 0);", "num_envs"),
        ("    x[0] = gridDim.x;", "'gridDim' is not available: the number of replicas is a parameter, int num_envs"),
        ("    extern __shared__ int y[];", "'extern __shared__' has no known size: WD_SHARED(type, name, size)"),
        ("    x[0] = __shfl_down_sync(0xffffffffu, x[1], 1);", "'__shfl_down_sync' works on warps"),
        ("    __syncwarp();", "'__syncwarp' works on warps"),
        ("    x[wd_index(xx, 0)] = 1;", "'xx' is not one. Did you mean 'x'?"),
        ("    x[0] = 1", "expected ';'"),
    ],
)
def test_compile_errors_are_told_at_the_authors_line(run, line, message):
    with pytest.raises(KernelError) as raised:
        run(f"// a comment\nWD_KERNEL void step(int *x) {{\n{line}\n}}", 3, 2, x=np.zeros((3, 2), np.int32))
    said = str(raised.value)
    assert re.match(r"\S+/step.cu:3: ", said), said
    assert message.replace("'", "") in said.replace("'", "")


def test_a_missing_compiler_is_told(run, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(
        BackendError, match=r"needs a C\+\+ compiler: CXX is 'no-such-compiler', which is not a program"
    ):
        run("WD_KERNEL void step(int *x) { x[0] = 4711; }", 1, 1, x=np.zeros((1, 1), np.int32))
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BackendError, match=r"none of c\+\+, g\+\+, clang\+\+ was found"):
        run("WD_KERNEL void step(int *x) { x[0] = 4711; }", 1, 1, x=np.zeros((1, 1), np.int32))


# --- the cache ---


def test_what_is_compiled_is_found_by_its_content(run, tmp_path, monkeypatch):
    monkeypatch.setenv("WARPDRIVE_CACHE_DIR", str(tmp_path / "cache"))
    compiled = []
    compile_now = host._compile
    monkeypatch.setattr(host, "_compile", lambda *given: compiled.append(given) or compile_now(*given))
    (tmp_path / "part.h").write_text("#define PART 1\n")
    text = '#include "part.h"\nWD_KERNEL void step(int *x, int *pool__x) { x[wd_env()] = PART; }'
    x, pool = np.zeros((6, 1), np.int32), np.zeros((6, 1), np.int32)
    run(text, 6, 1, x=x, pool__x=pool)
    run(text, 6, 1, x=x, pool__x=pool)
    run(text, 3, 1, x=x[:3], pool__x=pool)  # another number of replicas, which is not that of the start states
    assert len(compiled) == 1
    (tmp_path / "part.h").write_text("#define PART 2\n")
    run(text, 6, 1, x=x, pool__x=pool)
    assert len(compiled) == 2
    assert x.tolist() == [[2]] * 6
    # what is damaged is compiled again (elsewhere: what this process has loaded is not looked at twice)
    shutil.copytree(tmp_path / "cache", tmp_path / "damaged")
    monkeypatch.setenv("WARPDRIVE_CACHE_DIR", str(tmp_path / "damaged"))
    for library in (tmp_path / "damaged").rglob("*.so"):
        library.write_text("damaged")
    run(text, 6, 1, x=x, pool__x=pool)
    assert len(compiled) == 3
