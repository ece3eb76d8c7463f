"""Programs, tests and modules that import ``numba.cuda``, in processes of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap

import pytest
import yaml
from pages import blocks_of
from paths import ROOT

PROGRAM = """
import multiprocessing
import sys

import numba.cuda
import numpy as np
from numba import config, cuda
from numba.cuda import cg, fp16, jit, libdevice, types
from numba.cuda.cudadrv.devicearray import DeviceNDArray
from numba.cuda.cudadrv.driver import CudaAPIError
from numba.cuda.cudadrv.error import CudaSupportError
from numba.cuda.kernels.transpose import transpose
from numba.cuda.libdevice import sinf
from numba.cuda.random import create_xoroshiro128p_states

from beside import increment


def work(queue):
    values = np.zeros(2)
    increment[1, 2](values)
    queue.put((values.tolist(), cuda.implementation))


if __name__ == "__main__":
    assert numba.cuda is cuda and cuda.types.float32 is types.float32 is numba.float32
    assert config.ENABLE_CUDASIM and isinstance(cuda.to_device(np.zeros(2)), DeviceNDArray)
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=work, args=(queue,))
    process.start()
    print(*queue.get(timeout=60), sys.argv[1:], __name__)
    process.join()
    work(queue)
    print(queue.get(timeout=60), "torch" in sys.modules, sorted({m.split(".")[0] for m in sys.modules} & {"cuda"}))
    try:
        import numba.cuda.unknown
    except ModuleNotFoundError as error:
        print(error.name)
    sys.exit(3)
"""
BESIDE = """
from numba import cuda

@cuda.jit
def increment(values):
    values[cuda.grid(1)] += 1
"""
OUTPUT = """\
[1.0, 1.0] WarpDrive ['--size', '3'] __main__
([1.0, 1.0], 'WarpDrive') False []
numba.cuda.unknown
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "beside.py").write_text(BESIDE)
    return tmp_path


def run(folder, *command):
    return subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, env={**os.environ, "PYTHONSAFEPATH": ""}
    )


@pytest.mark.parametrize("named", [["program.py"], ["-m", "program"]])
def test_programs_run_unmodified(folder, named):
    done = run(folder, "-m", "warpdrive.numba_cuda", *named, "--size", "3")
    assert (done.stdout, done.returncode) == (OUTPUT, 3), done.stderr


def test_neither_numba_cuda_nor_that_of_numba_is_needed(folder):
    hide = """
    import importlib.machinery, sys
    class Hidden(importlib.machinery.PathFinder):
        @classmethod
        def find_spec(cls, name, path=None, target=None):
            return None if name.startswith(("numba.cuda", "numba_cuda")) else super().find_spec(name, path, target)
    sys.meta_path[:] = [f for f in sys.meta_path if f is not importlib.machinery.PathFinder
                        and "redirector" not in type(f).__module__] + [Hidden]
    sys.argv = ["", "program.py", "--size", "3"]
    from warpdrive.numba_cuda.__main__ import main
    main(sys.argv[1:])
    """
    done = run(folder, "-c", textwrap.dedent(hide))
    assert (done.stdout, done.returncode) == (OUTPUT, 3), done.stderr


def test_a_program_that_is_not_named_is_a_usage_error(tmp_path):
    assert run(tmp_path, "-m", "warpdrive.numba_cuda").returncode == 2
    for named in (["no.py"], ["-m", "no_module.part"], ["--check", "--json", "no/found.json", __file__]):
        missing = run(tmp_path, "-m", "warpdrive.numba_cuda", *named)
        assert missing.returncode == 2
        assert re.search(r": error: .*'?no", missing.stderr) and "Traceback" not in missing.stderr
    assert "program.py" in run(tmp_path, "-m", "warpdrive.numba_cuda", "--help").stdout


def test_the_plugin_of_pytest_installs_before_conftest(tmp_path):
    (tmp_path / "conftest.py").write_text("from numba import cuda\nassert cuda.implementation == 'WarpDrive'\n")
    (tmp_path / "test_it.py").write_text(
        textwrap.dedent(
            """
            import numpy as np
            from numba import cuda
            from numba.core.errors import TypingError
            from numba.cuda.testing import CUDATestCase, skip_on_cudasim, unittest

            class Test(CUDATestCase):
                def test_kernel(self):
                    @cuda.jit
                    def fill(values):
                        values[cuda.grid(1)] = 2
                    values = np.zeros(3)
                    fill[1, 3](values)
                    self.assertPreciseEqual(values, np.full(3, 2.0))

                def test_refusal(self):
                    @cuda.jit
                    def wrong(values):
                        values[0] = [1]
                    with self.assertRaises(TypingError):
                        wrong[1, 1](np.zeros(3))

                @skip_on_cudasim("needs a GPU")
                def test_of_gpus(self):
                    assert False
            """
        )
    )
    done = run(tmp_path, "-m", "pytest", "-q", "-p", "warpdrive.numba_cuda", "-p", "no:cacheprovider")
    assert "2 passed, 1 skipped" in done.stdout, done.stdout


def test_uninstalling_restores_what_was_there(tmp_path):
    program = """
    import sys
    from numba import config, cuda, vectorize
    import warpdrive.numba_cuda as ours
    @cuda.jit
    def before(x):
        x[cuda.grid(1)] = 1
    ours.install()
    ours.install()
    from numba import cuda as installed
    import numpy as np, warpdrive as wd
    x = np.zeros(2)
    wd.kernel(before)[1, 2](x)
    @installed.jit
    def kernel(x):
        x[installed.grid(1)] += 1
    kernel[1, 2](x)
    vectorize(["float32(float32)"], target="cuda")(lambda x: x)
    ours.uninstall()
    ours.uninstall()
    from numba import cuda as restored
    kernel[1, 1](x)
    print(installed is not cuda, restored is cuda, sys.modules["numba.cuda"] is cuda, config.ENABLE_CUDASIM, x)
    """
    (tmp_path / "program.py").write_text(textwrap.dedent(program))
    done = run(tmp_path, "program.py")
    assert done.stdout == "True True True 0 [3. 2.]\n", done.stderr


def test_the_workflow_of_the_page_is_valid():
    (block,) = blocks_of((ROOT / "docs" / "guides" / "numba_cuda.md").read_text(), "yaml")
    workflow = yaml.safe_load(block.code)
    job = workflow["jobs"]["test"]
    assert set(workflow) == {"name", True, "jobs"}  # YAML 1.1 reads "on" as True
    assert all(os in str(job["strategy"]["matrix"]["os"]) for os in ("ubuntu", "macos", "windows"))
    for step in job["steps"]:
        assert ("run" in step) != ("uses" in step) and set(step) <= {"run", "uses", "with"}
    assert set(re.findall(r"matrix\.(\w+)", block.code)) == set(job["strategy"]["matrix"])
    install, *tests = [step["run"] for step in job["steps"] if "run" in step]
    assert install.startswith("pip install ")
    # test_tests_are_checked of tests/warpdrive/checks/test_programs.py runs these options
    assert tests == ["pytest -p warpdrive.numba_cuda", "pytest -p warpdrive.numba_cuda --check-launches"]
