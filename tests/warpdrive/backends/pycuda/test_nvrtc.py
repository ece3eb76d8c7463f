"""CUDA C compiled for GPUs, without one: arguments, layout of threads, and messages about mistakes."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

import warpdrive as wd
from warpdrive.backends.cuda.packing import Packing
from warpdrive.backends.pycuda import nvrtc
from warpdrive.backends.pycuda.generate import LIBRARY
from warpdrive.backends.pycuda.host import host_compiler
from warpdrive.backends.pycuda.nvrtc import compile_fused
from warpdrive.errors import BackendError
from warpdrive.kernels.errors import KernelError

RING = f"{Path(__file__).parent / 'ring.py'}:Ring"


class CompilingBackend:
    """Compiles what it is given for a GPU, and runs nothing."""

    name = "compiling"
    language = "CUDA C"
    device = torch.device("cpu")

    def __init__(self, capability):
        self.capability, self.compiled = capability, []

    def bind(self, fusion, arguments, blocks, threads):
        self.compiled.append(compile_fused(fusion, arguments, blocks, threads, self.capability))
        return lambda: None


@pytest.mark.parametrize("capability", [(8, 0), (9, 0)])
@pytest.mark.parametrize(
    ("num_hunters", "packing"),
    [(0, Packing(1, 64, 32)), (4, Packing(5, 64, 6)), (31, Packing(32, 64, 1)), (99, Packing(100, 100))],
)
def test_the_fused_steps_of_an_environment_compile(capability, num_hunters, packing):
    backend = CompilingBackend(capability)
    wd.EnvWrapper(wd.make(RING, num_hunters=num_hunters), 1000, backend).allocate_rollout(8)
    assert [code.name for code, _ in backend.compiled] == ["wd_ring_reset", "wd_ring_step"]
    for code, found in backend.compiled:
        assert found == packing
        assert code.image[:4] == b"\x7fELF"
        assert f".target sm_{capability[0]}{capability[1]}" in code.ptx
        assert not re.search(r"\.f64\b", code.ptx)
        assert 8 < code.resources.registers <= 64
        # a block of 100 threads is compiled for 32 registers, one too few for the sampler on some architectures
        assert code.resources.spilled_bytes <= (4 if num_hunters == 99 else 0)
        assert code.resources.local_bytes <= 2 * code.resources.spilled_bytes
    # what a replica shares is there once for each replica of a block
    assert backend.compiled[1][0].resources.shared_bytes == 4 * packing.replicas_per_block


@pytest.mark.parametrize("agents", [1, 2, 3, 5, 11, 16, 17, 31, 32])
def test_every_agent_of_every_replica_is_one_thread(agents, tmp_path):
    """The functions that say which replica and agent a thread is, run on the host for all threads of a launch."""
    packing, replicas = Packing.of(agents), 101
    program = tmp_path / "threads.cpp"
    program.write_text(
        f"""
        #define __device__
        #define __forceinline__ inline
        #define WD_NUM_AGENTS {agents}
        #define WD_REPLICAS_PER_WARP {packing.replicas_per_warp}
        #define WD_WARPS_PER_BLOCK {packing.threads // 32}
        static struct {{ unsigned int x; }} threadIdx, blockIdx;
        static void __syncwarp(unsigned int) {{}}
        static unsigned int __ballot_sync(unsigned int, int) {{ return 0; }}
        static int __popc(unsigned int) {{ return 0; }}
        #include "gpu.cuh"
        extern "C" void look(int thread, int block, int *found) {{
            threadIdx.x = thread, blockIdx.x = block;
            found[0] = wd_is_live({replicas}); found[1] = wd_env(); found[2] = wd_agent();
            found[3] = wd_lanes(); found[4] = wd_place_in_block();
        }}"""
    )
    subprocess.run(
        [host_compiler(), "-shared", "-fPIC", f"-I{LIBRARY}", str(program), "-o", str(tmp_path / "threads.so")],
        check=True,
    )
    look = ctypes.CDLL(str(tmp_path / "threads.so")).look
    seen, lanes, places = [], {}, {}
    for block in range(packing.blocks(replicas)):
        for thread in range(packing.threads):
            found = np.zeros(5, np.int32)
            look(thread, block, found.ctypes.data_as(ctypes.c_void_p))
            live, env, agent, mask, place = found.tolist()
            if live:
                seen.append((env, agent))
                lanes.setdefault((env, mask & 0xFFFFFFFF), set()).add((block, thread // 32, thread % 32))
                places.setdefault((block, place), set()).add(env)
    assert sorted(seen) == [(env, agent) for env in range(replicas) for agent in range(agents)]
    assert len(lanes) == replicas
    for (_, mask), threads in lanes.items():  # a replica waits for its own lanes, all in one warp
        assert sum(1 << lane for _, _, lane in threads) == mask
        assert len({(block, warp) for block, warp, _ in threads}) == 1
    assert all(len(replicas_there) == 1 for replicas_there in places.values())
    assert max(place for _, place in places) < packing.replicas_per_block


def test_a_replica_has_a_block_where_its_shared_memory_needs_it(compile_for, tmp_path):
    text = """
    WD_KERNEL void step(float *x) {
        WD_SHARED(float, table, SIZE);
        table[wd_agent()] = x[wd_env()];
        wd_barrier();
        x[wd_env()] = table[0];
    }"""
    x = np.zeros((50, 4), np.float32)
    small = compile_for((9, 0), text.replace("SIZE", "100"), 50, 4, x=x)
    large = compile_for((9, 0), text.replace("SIZE", "2000"), 50, 4, x=x)
    assert small.resources.shared_bytes == 16 * 400
    assert large.resources.shared_bytes == 8000
    with pytest.raises(KernelError, match="uses too much shared data"):
        compile_for((9, 0), text.replace("SIZE", "20000"), 50, 4, x=x)


def test_a_replica_has_a_block_where_its_author_declares_shared_variables(compile_for):
    text = """
    WD_KERNEL void step(int *x) {  // not __shared__
        __shared__ int y;
        if (wd_agent() == 0) y = x[1];
        __syncthreads();
        x[0] = y;
    }"""
    code = compile_for((9, 0), text, 50, 4, x=np.zeros((50, 4), np.int32))
    assert code.resources.shared_bytes == 4
    assert "bar.sync" in code.ptx
    packed_code = compile_for(
        (9, 0), text.replace("__shared__ int y", "int y = 0"), 50, 4, x=np.zeros((50, 4), np.int32)
    )
    assert "bar.sync" not in packed_code.ptx
    assert "bar.warp.sync" in packed_code.ptx


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("    x[0] = y;", 'identifier "y" is undefined\n      x[0] = y;\n             ^'),
        ("    x[wd_index(z, 0)] = 1;", "wd_index(z, ...) takes the name of an array parameter"),
        ("    x[wd_index(x, 0, 0, 0, 0)] = 1;", "more indices than the array has axes"),
        ("    x[0] = wd_extent(x, 0);", "num_envs"),
    ],
)
def test_compile_errors_are_told_at_the_authors_line(compile_for, line, message):
    with pytest.raises(KernelError) as raised:
        compile_for(
            (9, 0), f"// a comment\nWD_KERNEL void step(int *x) {{\n{line}\n}}", 3, 2, x=np.zeros((3, 2), np.int32)
        )
    assert re.match(r"\S+/step.cu:3: ", str(raised.value)), str(raised.value)
    assert message in str(raised.value)


def test_more_agents_than_a_block_has_threads_are_refused(compile_for):
    with pytest.raises(KernelError, match=r"3000 agents: .* at most 1024"):
        compile_for((9, 0), "WD_KERNEL void step(int *x) {}", 2, 3000, x=np.zeros((2, 3000), np.int32))
    assert compile_for((9, 0), "WD_KERNEL void step(int *x) {}", 2, 1024, x=np.zeros((2, 1024), np.int32))


def test_a_gpu_that_nvrtc_does_not_know_is_told(compile_for):
    with pytest.raises(BackendError, match=r"NVRTC \d+\.\d+ cannot compile for compute capability 1\.1"):
        compile_for((1, 1), "WD_KERNEL void step(int *x) { x[0] = 1; }", 2, 2, x=np.zeros((2, 2), np.int32))


@pytest.mark.parametrize("included", [True, False])
def test_headers_of_the_c_library_may_be_included(compile_for, included):
    text = """
    #include <assert.h>
    #include <cmath>
    #include <cuda_runtime.h>
    #include <float.h>
    #include <limits.h>
    #include <math.h>
    #include <stdint.h>
    #include <stdio.h>
    WD_KERNEL void step(float *x) {
        const uint8_t small = 3;
        assert(x[0] < FLT_MAX);
        x[0] = isinf(x[1]) ? INFINITY : sinf(float(M_PI)) + small + INT_MAX;
    }"""
    text = text if included else text.replace("#include", "//")
    assert compile_for((9, 0), text, 2, 2, x=np.zeros((2, 2), np.float32)).image


def test_what_is_compiled_is_found_by_its_content(compile_for, tmp_path, monkeypatch):
    monkeypatch.setenv("WARPDRIVE_CACHE_DIR", str(tmp_path / "cache"))
    compiled = []
    compile_now = nvrtc._compile
    monkeypatch.setattr(nvrtc, "_compile", lambda *given: compiled.append(given) or compile_now(*given))
    text, x = "WD_KERNEL void step(int *x) { x[wd_env()] = 1; }", np.zeros((6, 1), np.int32)
    first = compile_for((9, 0), text, 6, 1, x=x)
    assert compile_for((9, 0), text, 6, 1, x=x) == first
    assert compile_for((9, 0), text, 3, 1, x=x[:3]) == first  # another number of replicas
    assert len(compiled) == 1
    compile_for((8, 0), text, 6, 1, x=x)
    assert len(compiled) == 2
    for file in (tmp_path / "cache").rglob("*.json"):
        file.write_text("damaged")
    assert compile_for((9, 0), text, 6, 1, x=x).resources == first.resources
    assert len(compiled) == 3


def test_nvrtc_that_is_not_installed_is_told(compile_for, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(BackendError, match=r"NVRTC, which is not installed: pip install 'warpdrive\[pycuda\]'"):
        compile_for((9, 0), "WD_KERNEL void step(int *x) {}", 1, 1, x=np.zeros((1, 1), np.int32))
