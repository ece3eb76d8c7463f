"""Tests of `make gpu-test`: those marked gpu, and those of the backends that use a GPU."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

TESTS = """
import pytest

@pytest.fixture(params=["cpu", "numba", "pycuda"])
def backend(request):
    return request.param

def test_of_a_backend(backend):
    pass

@pytest.mark.parametrize("python_backend", ["cpu", "numba"])
def test_of_a_python_backend(python_backend):
    pass

@pytest.mark.gpu
def test_that_says_so():
    pass

@pytest.mark.parametrize("name", ["numba"])
def test_of_something_else(name):
    pass

@pytest.mark.gpu
def test_that_breaks_the_gpu():
    import torch
    assert torch.cuda.synchronize is None

@pytest.mark.gpu
def test_after_it():
    pass
"""


def test_what_uses_the_gpu_is_run_there_until_a_test_breaks_it(
    pytester: pytest.Pytester, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a stand-in for a GPU that numba's backend uses, while CUDA C runs on the host."""
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)  # as in one process
    ours = str(request.config.rootpath / "tests" / "conftest.py")
    pytester.makeconftest(
        f"""
        import importlib.util, sys, types
        import pytest, torch
        spec = importlib.util.spec_from_file_location("ours", {ours!r})
        ours = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(ours)
        def faulty():
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        torch.cuda.is_available = torch.cuda.is_initialized = lambda: True
        torch.cuda.synchronize = faulty
        ours.usable_backends = lambda: ["cpu", "numba", "pycuda"]
        kinds = {{"cpu": "cpu", "numba": "cuda", "pycuda": "cpu"}}
        ours.load_backend = lambda name: types.SimpleNamespace(device=torch.device(kinds[name]))
        pytest_collection_modifyitems = ours.pytest_collection_modifyitems
        pytest_runtest_makereport = ours.pytest_runtest_makereport
        """
    )
    pytester.makeini("[pytest]\nmarkers = gpu: needs a GPU")
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_subprocess("-m", "gpu", "-v", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=3, failed=1, deselected=4)
    result.stdout.fnmatch_lines("*GPU is unusable after *::test_that_breaks_the_gpu: CUDA error: an illegal memory*")
    passed = [line.split("::")[1].split()[0] for line in result.outlines if " PASSED" in line]
    assert passed == ["test_of_a_backend[numba]", "test_of_a_python_backend[numba]", "test_that_says_so"]
