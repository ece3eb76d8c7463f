"""Signatures of kernel functions in CUDA C: how they are read, and what they may be bound to."""

import re

import numpy as np
import pytest
import torch

import warpdrive as wd
from warpdrive.kernels.cuda_signature import read_signatures, without_functions
from warpdrive.kernels.errors import KernelError

MANY = """
// WD_KERNEL void commented_out(int x) {}
/* WD_KERNEL void
   this_too(int x) {} */
static const char *text = "WD_KERNEL void in_a_string(int x)";
#define MINE WD_KERNEL
__device__ float helper(double x) { return x; }

WD_KERNEL void first(int *loc_x, const float *__restrict__ speed, float const * restrict mass,  // the state
                     bool *done, /* int *old, */ uint8_t *bytes,
                     unsigned *rng, const int32_t *const ids,
                     float gravity, const int num_envs, bool flag) {
}

#define SQUARED(x) ((x) * (x))
WD_KERNEL
void second() {}
WD_KERNEL void third(void) {}
"""


def test_functions_are_found_with_their_parameters():
    found = read_signatures(MANY, "many.cu")
    assert list(found) == ["first", "second", "third"]
    assert found["second"].parameters == found["third"].parameters == ()
    kinds = [(p.name, p.dtype, p.is_pointer, p.is_const) for p in found["first"].parameters]
    assert kinds == [
        ("loc_x", "int32", True, False),
        ("speed", "float32", True, True),
        ("mass", "float32", True, True),
        ("done", "bool", True, False),
        ("bytes", "uint8", True, False),
        ("rng", "uint32", True, False),
        ("ids", "int32", True, True),
        ("gravity", "float32", False, False),
        ("num_envs", "int32", False, False),
        ("flag", "bool", False, False),
    ]


def test_places_are_those_of_the_file():
    first = read_signatures(MANY, "many.cu")["first"]
    assert first.where == "many.cu:9"
    assert {p.name: p.where for p in first.parameters}["rng"] == "many.cu:11"
    assert {p.name: p.where for p in first.parameters}["gravity"] == "many.cu:12"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("WD_KERNEL void f(int x[]) {}", "parameter 'int x[]' of kernel function 'f': expected a number"),
        ("WD_KERNEL void f(\n  int **x) {}", "f.cu:2: parameter 'int **x'"),
        ("WD_KERNEL void f(int &x) {}", "parameter 'int &x'"),
        ("WD_KERNEL void f(flaot *x) {}", "such as 'float *x'). Did you mean 'float'?"),
        ("WD_KERNEL void f(struct state *x) {}", "parameter 'struct state *x'"),
        ("WD_KERNEL void f(int) {}", "parameter 'int'"),
        ("WD_KERNEL void f(int x, float x) {}", "two parameters 'x'"),
        ("WD_KERNEL int f(int x) {}", "returns 'int', expected 'WD_KERNEL void f(...)'"),
        (
            "WD_KERNEL void f(int x) {}\nWD_KERNEL void f(float x) {}",
            "f.cu:2: function 'f' is already defined at f.cu:1",
        ),
        ("WD_KERNEL void", "f.cu:1: expected 'WD_KERNEL void name(parameters)'"),
    ],
)
def test_what_cannot_be_bound_is_told_with_its_line(text, message):
    with pytest.raises(KernelError, match=re.escape(message)):
        read_signatures(text, "f.cu")


def constant(*numbers, dtype):
    array = np.array(numbers, dtype)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("int *x", torch.zeros(3, dtype=torch.int32)),
        ("const int *x", torch.zeros(3, dtype=torch.int32)),
        ("uint32_t *x", torch.zeros(3, dtype=torch.uint32)),
        ("bool *x", torch.zeros(3, dtype=torch.bool)),
        ("double *x", torch.zeros(3, dtype=torch.float64)),
        ("const long long *x", torch.zeros(3, dtype=torch.int64)),
        ("const float *x", constant(1, 2, dtype=np.float32)),
        ("int x", np.int32(3)),
        ("const float x", np.float32(3)),
        ("bool x", np.bool_(True)),
    ],
)
def test_types_that_fit(parameter, value):
    read_signatures(f"WD_KERNEL void f({parameter}) {{}}", "f.cu")["f"].check({"x": value})


@pytest.mark.parametrize(
    ("parameter", "value", "message"),
    [
        (
            "float *x",
            torch.zeros(3, dtype=torch.int32),
            "f.cu:1: parameter 'float *x' of kernel function 'f': the array 'x' holds int32: expected 'int *x'",
        ),
        ("unsigned int *x", torch.zeros(3, dtype=torch.int32), "holds int32: expected 'int *x'"),
        (
            "float *x",
            constant(1, 2, dtype=np.float32),
            "the environment's constant 'x' holds float32 and may not be written to: expected 'const float *x'",
        ),
        ("int *x", np.int32(7), "the environment's constant 'x' is one int32, 7: expected 'int x'"),
        ("int x", np.float32(0.5), "the environment's constant 'x' is one float32, 0.5: expected 'float x'"),
        ("float x", np.int32(10), "is one int32, 10: expected 'int x'"),
        ("double x", np.float32(0.5), "expected 'float x'"),
        ("float x", torch.zeros(3, dtype=torch.float32), "the array 'x' holds float32: expected 'float *x'"),
        ("float *x", torch.zeros(3, dtype=torch.float16), "holds float16, which has no corresponding type"),
    ],
)
def test_types_that_do_not_fit_are_both_named(parameter, value, message):
    signature = read_signatures(f"WD_KERNEL void f({parameter}) {{}}", "f.cu")["f"]
    with pytest.raises(KernelError, match=re.escape(message)):
        signature.check({"x": value})


def test_an_unknown_function_is_told_with_what_there_is(tmp_path):
    file = tmp_path / "game.cu"
    file.write_text("WD_KERNEL void step(int x) {}\nWD_KERNEL void observe(int x) {}")
    with pytest.raises(
        KernelError, match=r"no kernel function 'WD_KERNEL void stepp.*found: step, observe. Did .*'step'"
    ):
        _ = wd.cuda_kernel(file, "stepp").parameters


def test_a_missing_file_is_told_when_it_is_needed(tmp_path):
    (tmp_path / "game.cu").write_text("")
    kernel = wd.cuda_kernel(tmp_path / "gane.cu", "step")
    with pytest.raises(KernelError, match=r"gane.cu cannot be read: No such file.*Did you mean 'game.cu'"):
        _ = kernel.parameters


def test_a_relative_path_begins_where_the_calling_module_is():
    assert wd.cuda_kernel("../backends/pycuda/ring.cu", "step").parameters[:2] == ("position", "actions")


def test_a_kernel_says_what_it_may_change():
    step = wd.cuda_kernel("../backends/pycuda/ring.cu", "step")
    changed = {name for name in step.parameters if step.may_change(name)}
    assert changed == {"position", "rewards", "terminated", "catches"}


def test_a_kernel_is_not_called_on_the_host():
    with pytest.raises(KernelError, match=r"CudaKernel step of ring.cu.*env_backend='pycuda'"):
        wd.cuda_kernel("../backends/pycuda/ring.cu", "step")()


def test_functions_of_other_fused_kernels_are_left_out_and_lines_stay():
    text = """
WD_KERNEL void step(int *x) {
    if (true) { x[0] = '}'; } // }
}
WD_KERNEL void part(int *y) { y[0] = 1; }
WD_KERNEL void reset(int *y) { part(y); }
"""
    kept = without_functions(text, {"reset"})
    assert kept.count("\n") == text.count("\n")
    assert "step" not in kept
    assert kept.splitlines()[4:] == text.splitlines()[4:]
