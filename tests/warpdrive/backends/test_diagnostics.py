"""Unmet requirements of backends on several machines, their messages, and the choice of backend and GPU."""

from __future__ import annotations

import json
import logging
import os
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

import warpdrive as wd
from warpdrive.backends import diagnostics as requirements, loading, system_info as machine_module
from warpdrive.backends.cuda import driver, selection
from warpdrive.backends.cuda.driver import Gpu
from warpdrive.backends.loading import chosen, lacks, load_backend
from warpdrive.backends.system_info import CudaLibrary, Machine, NvidiaDriver, PyTorch, this_machine
from warpdrive.doctor import diagnosis
from warpdrive.errors import BackendError
from warpdrive.training.cli.doctor import print_diagnosis

H200 = Gpu("NVIDIA H200", (9, 0), 140 << 30, 132)
CURRENT = PyTorch("2.13.0+cu130", "13.0", ("sm_75", "sm_80", "sm_90", "sm_120", "compute_120"))
WHEELS = {name: CudaLibrary("13.0.88", f"/site-packages/nvidia/cu13/lib/lib{name}.so") for name in ("nvvm", "nvrtc")}

FITTING = Machine(
    python="3.12.3",
    system="Linux x86_64",
    cores=16,
    packages=dict.fromkeys(("torch", "numba", "numba-cuda", "cuda-bindings", "pycuda"), "1.0"),
    pytorch=CURRENT,
    driver=NvidiaDriver((13, 0), (H200, H200), release="580.82.07"),
    cuda_libraries={**WHEELS, "nvJitLink": CudaLibrary("13.4.2", "/site-packages/nvidia/cu13/lib/libnvJitLink.so")},
    cxx_compiler="/usr/bin/c++",
)


def of(card, **changes):
    return {"driver": replace(FITTING.driver, gpus=(card,)), **changes}


def without(*packages):
    return {name: version for name, version in FITTING.packages.items() if name not in packages}


TOOLKIT_13_0 = 'pip install "numba-cuda[cu13]" "cuda-toolkit==13.0.*"'
NEWER_NVVM = {**FITTING.cuda_libraries, "nvvm": CudaLibrary("13.4.1", "/nvvm.so")}
MACHINES = {
    "PyTorch for CPUs": (
        {"pytorch": PyTorch("2.13.0+cpu")},
        ["PyTorch 2.13.0+cpu is built without CUDA", "pytorch.org"],
    ),
    "broken PyTorch": (
        {"pytorch": PyTorch("2.13.0", failure="OSError: libcudart.so.13: cannot open")},
        ["PyTorch cannot be imported (OSError: libcudart.so.13", "reinstall it"],
    ),
    "no driver": ({"driver": NvidiaDriver(failure="there is no NVIDIA driver")}, ["there is no NVIDIA driver"]),
    "no GPU": ({"driver": NvidiaDriver((13, 0))}, ["the NVIDIA driver sees no GPU", "nvidia-smi"]),
    "an old driver": (
        {"driver": NvidiaDriver((12, 8), (H200,))},
        ["supports CUDA 12.8, PyTorch 2.13.0+cu130 needs 13.0", "newer driver", "NVVM 13.0.88 is newer"],
    ),
    "an old driver, for PyTorch too": (
        {"driver": NvidiaDriver((12, 4), (H200,)), "pytorch": replace(CURRENT, cuda="12.4")},
        ["NVVM 13.0.88 is newer", '"numba-cuda[cu12]" "cuda-toolkit==12.4.*"'],
    ),
    "an old card": (
        of(replace(H200, name="P100", capability=(6, 0))),
        ["P100, has compute capability 6.0; at least 7.0 is needed", "env_backend 'cpu'"],
    ),
    "a card older than CUDA 13": (
        of(replace(H200, name="V100", capability=(7, 0)), pytorch=replace(CURRENT, architectures=("sm_70",))),
        ["compiles for compute capability 7.5 and newer; V100 has 7.0", "numba-cuda[cu12]"],
    ),
    "a card PyTorch is not built for": (
        of(H200, pytorch=replace(CURRENT, architectures=("sm_80", "sm_86", "sm_120"))),
        ["PyTorch 2.13.0+cu130 is built for sm_80, sm_86, sm_120", "GPU 0, NVIDIA H200"],
    ),
    "no numba-cuda": ({"packages": without("numba-cuda")}, ["numba-cuda is not installed", TOOLKIT_13_0]),
    "no NVVM": ({"cuda_libraries": {}}, ["NVVM is not installed", TOOLKIT_13_0]),
    "a compiler newer than the driver, and no linker": (
        {"cuda_libraries": {"nvvm": NEWER_NVVM["nvvm"]}},
        ["NVVM 13.4.1 is newer than the NVIDIA driver, which supports CUDA 13.0", TOOLKIT_13_0],
    ),
    "a linker older than the compiler": (
        {"cuda_libraries": {**NEWER_NVVM, "nvJitLink": CudaLibrary("13.0.39", "/x")}},
        ["nvJitLink 13.0.39 is older than NVVM 13.4.1", "pip install --upgrade nvidia-nvjitlink"],
    ),
}
USABLE = {
    "all fits": {},
    "a newer compiler, linked to machine code": {"cuda_libraries": NEWER_NVVM},
    "a newer driver": {"driver": NvidiaDriver((13, 3), (H200,))},
    "a newer card, by PyTorch's PTX": of(replace(H200, capability=(12, 1))),
    "a compiler of unknown version": {"cuda_libraries": {"nvvm": CudaLibrary(None, "/somewhere/libnvvm.so")}},
    "a toolkit of the system": {"cuda_libraries": {"nvvm": CudaLibrary("13.0", "/usr/local/cuda-13.0/libnvvm.so")}},
    "without PyCUDA": {"packages": without("pycuda")},
}


@pytest.fixture
def on(monkeypatch):
    """Give a function that lets the library see another machine."""

    def see(machine):
        for module in (loading, selection):
            monkeypatch.setattr(module, "this_machine", lambda: machine)
        loading._log_once.cache_clear()

    yield see
    loading._log_once.cache_clear()


@pytest.mark.parametrize(("changes", "said"), MACHINES.values(), ids=MACHINES)
def test_what_numba_lacks_is_told_with_what_would_help(changes, said, on):
    machine = replace(FITTING, **changes)
    on(machine)
    with pytest.raises(BackendError) as caught:
        load_backend("numba")
    for part in (*said, "env_backend 'numba' cannot be used on this machine", "`warpdrive doctor`"):
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)
    assert chosen(machine)[0] == "cpu"


@pytest.mark.parametrize("changes", USABLE.values(), ids=USABLE)
def test_what_numba_can_use(changes):
    machine = replace(FITTING, **changes)
    assert lacks("numba", machine) == []
    assert chosen(machine) == ("numba", [])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"packages": without("pycuda")}, "PyCUDA is not installed"),
        ({"packages": without("cuda-bindings")}, "NVRTC, or cuda-bindings"),
        ({"cuda_libraries": {}}, 'pip install "cuda-bindings" "cuda-toolkit[nvrtc]" "cuda-toolkit==13.0.*"'),
        ({"pytorch": PyTorch("2.13.0+cpu")}, "built without CUDA"),
    ],
)
def test_what_pycuda_lacks(changes, said):
    assert said in "; ".join(map(str, lacks("pycuda", replace(FITTING, **changes))))


def test_pycuda_needs_no_numba_cuda():
    assert lacks("pycuda", replace(FITTING, packages=without("numba-cuda"))) == []


def test_pycuda_gets_an_older_compiler_for_an_old_card():
    pytorch = replace(CURRENT, architectures=("sm_70",))
    machine = replace(FITTING, **of(replace(H200, name="V100", capability=(7, 0)), pytorch=pytorch))
    (lack,) = lacks("pycuda", machine)
    assert str(lack).startswith("NVRTC 13.0.88 compiles for compute capability 7.5 and newer; V100 has 7.0")
    assert str(lack).endswith(': pip install "cuda-bindings" "cuda-toolkit[nvrtc]" "cuda-toolkit==12.9.*"')


def test_processes_take_turns_at_the_gpus(on, fake_gpu):
    on(FITTING)
    fake_gpu.set(count=2)
    devices = [str(load_backend("numba", process_id).device) for process_id in range(5)]
    assert devices == ["cuda:0", "cuda:1", "cuda:0", "cuda:1", "cuda:0"]
    assert fake_gpu.current_device == 0
    assert fake_gpu.started == [0, 1]


def test_a_process_whose_gpu_does_not_do_is_told(on):
    on(replace(FITTING, driver=replace(FITTING.driver, gpus=(H200, replace(H200, name="P100", capability=(6, 0))))))
    with pytest.raises(BackendError, match="GPU 1, P100"):
        load_backend("numba", 3)


# --- auto ---


def test_auto_is_a_gpu_where_there_is_one_and_says_so_once(on, fake_gpu, caplog):
    on(FITTING)
    with caplog.at_level(logging.INFO, "warpdrive"):
        assert [load_backend("auto").name for _ in range(2)] == ["numba", "numba"]
    assert caplog.messages == ["env_backend 'auto' is 'numba', on cuda:0"]


def test_auto_is_the_cpu_where_there_is_no_gpu(on, caplog):
    on(replace(FITTING, driver=NvidiaDriver(failure="there is no NVIDIA driver")))
    with caplog.at_level(logging.INFO, "warpdrive"):
        assert load_backend("auto").name == "cpu"
    (record,) = caplog.records
    assert record.levelno == logging.INFO and "'cpu', since there is no NVIDIA driver" in record.message


def test_a_gpu_that_auto_cannot_use_is_worth_a_warning(on, caplog):
    on(replace(FITTING, packages=without("numba-cuda")))
    assert load_backend("auto").name == "cpu"
    (record,) = caplog.records
    assert record.levelno == logging.WARNING and TOOLKIT_13_0 in record.message


def test_auto_is_the_cpu_where_pytorch_fails_on_the_gpu(on, fake_gpu, caplog, monkeypatch):
    def full(index):
        raise BackendError("PyTorch 2.13.0 cannot use GPU 0: CUDA error: out of memory")

    on(FITTING)
    monkeypatch.setattr("warpdrive.backends.cuda.pytorch.start", full)
    assert load_backend("auto").name == "cpu"
    assert "since PyTorch 2.13.0 cannot use GPU 0: CUDA error: out of memory" in caplog.text


def test_a_backend_that_does_not_exist():
    with pytest.raises(BackendError, match=r"'nunba': expected one of auto, cpu, numba, pycuda\. Did you mean 'numba'"):
        load_backend("nunba")


@pytest.mark.parametrize("process_id", [-1, 1.5, True])
def test_a_process_that_does_not_exist(process_id):
    with pytest.raises(wd.WarpDriveError, match="process_id"):
        wd.EnvWrapper(env_name="cartpole", env_backend="cpu", process_id=process_id)


# --- warpdrive doctor ---


@pytest.fixture
def printed(fake_gpu):
    def printed(machine, width=200):
        text = StringIO()
        print_diagnosis(Console(file=text, width=width), diagnosis(machine))
        return text.getvalue()

    return printed


def test_the_doctor_on_a_machine_that_fits(printed):
    text = printed(FITTING)
    for part in (
        *("16 cores", "Python 3.12.3", "2.13.0+cu130", "for CUDA 13.0: sm_75", "580.82.07", "supports CUDA up to 13.0"),
        *("GPU 0", "GPU 1", "NVIDIA H200, compute capability 9.0, 140.0 GiB, 132 multiprocessors", "NVVM", "13.0.88"),
        "env_backend auto is numba",
    ):
        assert part in text
    assert text.count("yes") == 3


@pytest.mark.parametrize(("changes", "said"), MACHINES.values(), ids=MACHINES)
def test_the_doctor_tells_the_same_as_the_errors(changes, said, printed):
    text = printed(replace(FITTING, **changes), width=2000)
    for part in (*said, "env_backend auto is cpu"):
        assert part in text


def test_the_doctor_fits_into_a_terminal(printed):
    machine = replace(FITTING, packages=without("numba-cuda"), visible_devices="0,1")
    lines = printed(machine, width=80).splitlines()
    assert max(map(len, lines)) <= 80
    assert any("CUDA_VISIBLE_DEVICES" in line for line in lines)


def test_the_doctor_sees_that_a_gpu_cannot_be_used_after_all(printed, monkeypatch):
    def broken(index):
        raise RuntimeError("no kernel image")

    monkeypatch.setattr("warpdrive.backends.cuda.pytorch.start", broken)
    text = printed(FITTING)
    assert "GPU 0 cannot be used: RuntimeError: no kernel image" in text
    assert "env_backend auto is cpu" in text


def test_what_the_doctor_knows_can_be_read_by_programs(fake_gpu):
    known = json.loads(json.dumps(diagnosis(FITTING)))
    assert known["driver"]["gpus"][0]["capability"] == [9, 0]
    assert known["backends"]["numba"] == {"usable": True, "lacks": []}
    assert known["auto"] == "numba"


def test_looking_at_a_broken_machine_raises_nothing(monkeypatch):
    def broken(*arguments):
        raise RuntimeError("broken\nin many lines")

    monkeypatch.setattr(driver, "the_driver", broken)
    monkeypatch.setattr(machine_module, "version", broken)
    monkeypatch.setattr(machine_module.importlib, "import_module", broken)
    this_machine.cache_clear()
    try:
        machine = this_machine()
    finally:
        this_machine.cache_clear()
    assert machine.pytorch.failure == "RuntimeError: broken"
    assert machine.driver.failure == "RuntimeError: broken"
    assert not lacks("cpu", replace(machine, pytorch=CURRENT, packages={"numba": "unknown"}))
    assert not diagnosis(machine)["backends"]["cpu"]["usable"]


def test_the_least_capabilities_are_in_order():
    assert requirements.MIN_CAPABILITY < requirements.MIN_CAPABILITY_OF_CUDA_13


@pytest.mark.parametrize("variable", ["", "CUDA_HOME", "CUDA_PATH"])
def test_libraries_of_the_toolkit_of_nvcc_are_found_unless_a_variable_names_another(monkeypatch, tmp_path, variable):
    def load(name):
        """As cuda.pathfinder does with a library that is in none of the dynamic linker's directories."""
        path = Path(os.environ["CUDA_HOME"], name, "lib64", f"lib{name}.so")
        if not path.is_file():
            raise RuntimeError("not found")
        return SimpleNamespace(abs_path=str(path))

    toolkit = tmp_path / "cuda-13.0"
    for file in ("bin/nvcc", "nvvm/lib64/libnvvm.so"):
        (toolkit / file).parent.mkdir(parents=True)
        (toolkit / file).touch(mode=0o755)
    (tmp_path / "nvcc").symlink_to(toolkit / "bin" / "nvcc")
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.setenv(name, "/elsewhere")
        if name != variable:
            monkeypatch.delenv(name)
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", SimpleNamespace(load_nvidia_dynamic_lib=load))
    expected = None if variable else CudaLibrary("13.0", str(toolkit / "nvvm" / "lib64" / "libnvvm.so"))
    assert machine_module._cuda_library("nvvm") == expected
