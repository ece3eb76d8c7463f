"""Detection of the machine's PyTorch, NVIDIA driver, GPUs, compilers and package versions.

Detection never raises: failures are recorded as text. No module that could be broken is imported at import time.
"""

from __future__ import annotations

import importlib
import os
import platform
import re
import shutil
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpdrive.errors import BackendError

if TYPE_CHECKING:
    from warpdrive.backends.cuda.driver import Gpu

PACKAGES = ("warpdrive", "torch", "numba", "numba-cuda", "cuda-bindings", "pycuda", "numpy")

_CUDA_LIBRARIES = {
    "nvvm": ("nvidia-nvvm", "nvidia-cuda-nvcc-cu12"),
    "nvJitLink": ("nvidia-nvjitlink", "nvidia-nvjitlink-cu12"),
    "nvrtc": ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"),
}
"""Libraries of the CUDA toolkit, with the wheels that contain them: for CUDA 13 and for CUDA 12."""

CXX_COMPILERS = ("c++", "g++", "clang++")


@dataclass(frozen=True)
class PyTorch:
    """Installed PyTorch, with the CUDA version and the GPU architectures that it was built for."""

    version: str
    cuda: str | None = None
    architectures: tuple[str, ...] = ()
    failure: str = ""


@dataclass(frozen=True)
class CudaLibrary:
    """Library of the CUDA toolkit; ``version`` is None if unknown."""

    version: str | None
    path: str


@dataclass(frozen=True)
class NvidiaDriver:
    """NVIDIA driver.

    Attributes:
        cuda: Newest CUDA version it supports; None if there is no driver.
        gpus: GPUs, in PyTorch's order.
        failure: Reason why it does not work, or empty.
        release: Its own version, if the system reports it.
    """

    cuda: tuple[int, int] | None = None
    gpus: tuple[Gpu, ...] = ()
    failure: str = ""
    release: str | None = None


@dataclass(frozen=True)
class Machine:
    """Hardware and software of a machine; ``packages`` maps installed packages to their versions."""

    python: str
    system: str
    cores: int
    packages: dict[str, str]
    pytorch: PyTorch
    driver: NvidiaDriver
    cuda_libraries: dict[str, CudaLibrary] = field(default_factory=dict)
    cxx_compiler: str | None = None
    visible_devices: str | None = None


@cache
def this_machine() -> Machine:
    """Return the description of this machine, detected once."""
    return Machine(
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
        cores=usable_cores(),
        packages={name: found for name in PACKAGES if (found := _version(name)) is not None},
        pytorch=_pytorch(),
        driver=_driver(),
        cuda_libraries={name: library for name in _CUDA_LIBRARIES if (library := _cuda_library(name)) is not None},
        cxx_compiler=_cxx_compiler(),
        visible_devices=os.environ.get("CUDA_VISIBLE_DEVICES"),
    )


def usable_cores() -> int:
    """Return the number of cores available to this process."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not available on macOS and Windows
        return os.cpu_count() or 1


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
    except Exception:  # unreadable metadata
        return "unknown"


def _pytorch() -> PyTorch:
    installed = _version("torch") or "none"
    try:
        torch: Any = importlib.import_module("torch")
        flags = getattr(torch._C, "_cuda_getArchFlags", lambda: None)()
        return PyTorch(str(torch.__version__), torch.version.cuda, tuple((flags or "").split()))
    except Exception as error:  # a broken installation may raise anything
        return PyTorch(installed, failure=f"{type(error).__name__}: {_first_line(error)}")


def _driver() -> NvidiaDriver:
    from warpdrive.backends.cuda.driver import the_driver

    found: tuple[int, int] | None = None
    try:
        driver = the_driver()
        found = driver.version()
        return NvidiaDriver(found, tuple(driver.gpus()), release=_driver_release())
    except BackendError as error:
        return NvidiaDriver(found, failure=str(error), release=_driver_release())
    except Exception as error:
        return NvidiaDriver(found, failure=f"{type(error).__name__}: {_first_line(error)}")


def _driver_release() -> str | None:
    """Return the driver's own version, as reported by Linux."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        return None
    found = re.search(r"\b\d{3,}\.\d+(\.\d+)?\b", text)
    return found[0] if found else None


def _cuda_library(name: str) -> CudaLibrary | None:
    """Return the library that numba-cuda and cuda-bindings would load, or None if they would find none."""
    try:
        pathfinder: Any = importlib.import_module("cuda.pathfinder")
        try:
            found = pathfinder.load_nvidia_dynamic_lib(name)
        except Exception:
            if not _set_cuda_home():
                raise
            found = pathfinder.load_nvidia_dynamic_lib(name)
        path = str(found.abs_path)
    except Exception:
        return None
    return CudaLibrary(_library_version(name, path), path)


def _set_cuda_home() -> bool:
    """Set ``$CUDA_HOME`` to the CUDA toolkit; return False if it is set already, or there is none.

    Without it, NVVM of a toolkit is not found, since it is in none of the dynamic linker's directories. The toolkit is
    the one that PyTorch would take for its extensions.
    """
    compiler = shutil.which("nvcc")
    toolkit = Path(compiler).resolve().parents[1] if compiler else Path("/usr/local/cuda")
    if {"CUDA_HOME", "CUDA_PATH"} & os.environ.keys() or not (toolkit / "nvvm").is_dir():
        return False
    os.environ["CUDA_HOME"] = str(toolkit)
    return True


def _library_version(name: str, path: str) -> str | None:
    """Return the version of a library: that of its wheel, or of the toolkit, from its folder's name."""
    of_13, of_12 = _CUDA_LIBRARIES[name]
    if "site-packages" in Path(path).parts:
        return _version(of_13 if "cu13" in Path(path).parts else of_12)
    found = re.search(r"cuda-(\d+\.\d+)", str(Path(path).resolve()))
    return found[1] if found else None


def _cxx_compiler() -> str | None:
    wanted = os.environ.get("CXX")
    return next((path for name in ([wanted] if wanted else CXX_COMPILERS) if (path := shutil.which(name))), None)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0]
