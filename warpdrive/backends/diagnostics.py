"""Requirements of each backend, with remedies for unmet ones.

Errors of ``load_backend``, the selection of ``"auto"`` and ``warpdrive doctor`` are derived from these requirements and
from the detected machine (``system_info``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from warpdrive.backends.system_info import CudaLibrary, Machine

MIN_CAPABILITY = (7, 0)
"""Minimum compute capability: from Volta on, threads of one warp can wait for each other individually."""

MIN_CAPABILITY_OF_CUDA_13 = (7, 5)
"""Minimum compute capability for CUDA 13, which compiles for Turing and newer (CUDA 13.0 release notes)."""

_GET_PYTORCH = "pytorch.org/get-started/locally"

Version = tuple[int, int]


@dataclass(frozen=True)
class Lack:
    """Unmet requirement of a backend; ``remedy`` is empty if ``what`` already includes it."""

    what: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.what}: {self.remedy}" if self.remedy else self.what


Lacks = Callable[[Machine, int], Iterable[Lack]]
"""Function that yields the unmet requirements of a backend on a machine, for a process."""


def gpu_of(process_id: int, machine: Machine) -> int:
    """Return the index of the GPU that a process uses; GPUs are assigned round-robin."""
    return process_id % len(machine.driver.gpus)


def cpu_lacks(machine: Machine, process_id: int) -> Iterator[Lack]:
    """Yield the unmet requirements of the CPU backend."""
    if machine.pytorch.failure:
        yield Lack(f"PyTorch cannot be imported ({machine.pytorch.failure})", f"reinstall it ({_GET_PYTORCH})")
    if "numba" not in machine.packages:
        yield Lack("numba is not installed", "pip install numba")


def _gpu_lacks(machine: Machine, process_id: int) -> Iterator[Lack]:
    """Yield the unmet requirements of PyTorch, the driver and the GPU."""
    pytorch, driver = machine.pytorch, machine.driver
    if driver.failure:
        yield Lack(driver.failure)
    elif driver.cuda is None or not driver.gpus:
        yield Lack("the NVIDIA driver sees no GPU", "check that nvidia-smi lists one")
    yield from cpu_lacks(machine, process_id)
    if not pytorch.failure and pytorch.cuda is None:
        yield Lack(f"PyTorch {pytorch.version} is built without CUDA", f"install one with CUDA ({_GET_PYTORCH})")
    if driver.gpus:
        yield from _card_lacks(machine, process_id)


def _card_lacks(machine: Machine, process_id: int) -> Iterator[Lack]:
    pytorch, supported = machine.pytorch, machine.driver.cuda
    assert supported is not None
    index = gpu_of(process_id, machine)
    gpu = machine.driver.gpus[index]
    described = f"GPU {index}, {gpu.name}, has compute capability {_text(gpu.capability)}"
    if pytorch.cuda and _version(pytorch.cuda)[0] > supported[0]:
        yield Lack(
            f"the NVIDIA driver supports CUDA {_text(supported)}, PyTorch {pytorch.version} needs {pytorch.cuda}",
            f"install a newer driver (nvidia.com/drivers), or a PyTorch built for CUDA {supported[0]} ({_GET_PYTORCH})",
        )
    if gpu.capability < MIN_CAPABILITY:
        yield Lack(f"{described}; at least {_text(MIN_CAPABILITY)} is needed", "use another GPU, or env_backend 'cpu'")
    elif pytorch.architectures and not any(_runs_on(code, gpu.capability) for code in pytorch.architectures):
        yield Lack(
            f"{described}; PyTorch {pytorch.version} is built for {', '.join(pytorch.architectures)}",
            f"install one that is built for it ({_GET_PYTORCH})",
        )


def numba_lacks(machine: Machine, process_id: int) -> Iterator[Lack]:
    """Yield the unmet requirements of the Numba CUDA backend on the GPU of ``process_id``."""
    yield from _gpu_lacks(machine, process_id)
    packages = ("numba-cuda[{}]",)
    install = _command(*packages, machine=machine)
    if "numba-cuda" not in machine.packages:
        yield Lack("numba-cuda is not installed", install)
        return
    nvvm, linker = machine.cuda_libraries.get("nvvm"), machine.cuda_libraries.get("nvJitLink")
    if nvvm is None:
        yield Lack("numba-cuda's compiler NVVM is not installed", install)
        return
    yield from _compiler_lacks("NVVM", nvvm, linker, packages, machine, process_id)


def pycuda_lacks(machine: Machine, process_id: int) -> Iterator[Lack]:
    """Yield the unmet requirements of the PyCUDA backend on the GPU of ``process_id``."""
    yield from _gpu_lacks(machine, process_id)
    if "pycuda" not in machine.packages:
        yield Lack("PyCUDA is not installed", "pip install pycuda (it is built from source, with the CUDA toolkit)")
    packages = ("cuda-bindings", "cuda-toolkit[nvrtc]")
    nvrtc = machine.cuda_libraries.get("nvrtc")
    if nvrtc is None or "cuda-bindings" not in machine.packages:
        install = _command(*packages, machine=machine)
        yield Lack("the compiler NVRTC, or cuda-bindings to call it, is not installed", install)
    else:  # NVRTC generates machine code without a linker
        yield from _compiler_lacks("NVRTC", nvrtc, nvrtc, packages, machine, process_id)


def _compiler_lacks(
    name: str,
    compiler: CudaLibrary,
    linker: CudaLibrary | None,
    packages: Sequence[str],
    machine: Machine,
    process_id: int,
) -> Iterator[Lack]:
    """Yield the version conflicts between a compiler, the linker of its PTX, the driver and the GPU.

    Machine code runs on any driver of the same major version; PTX, without a linker, only on one that is not older than
    its compiler (CUDA compatibility guide, minor version compatibility).
    """
    supported = machine.driver.cuda
    if compiler.version is None or supported is None or not machine.driver.gpus:
        return
    found = _version(compiler.version)
    if ((found[0], 0) if linker else found) > supported:
        yield Lack(
            f"{name} {compiler.version} is newer than the NVIDIA driver, which supports CUDA {_text(supported)}",
            f"{_command(*packages, machine=machine)}, or install a newer driver (nvidia.com/drivers)",
        )
    if linker is not None and linker.version is not None and _version(linker.version) < found:
        yield Lack(
            f"nvJitLink {linker.version} is older than {name} {compiler.version}",
            "pip install --upgrade " + ("nvidia-nvjitlink" if found[0] >= 13 else f"nvidia-nvjitlink-cu{found[0]}"),
        )
    gpu = machine.driver.gpus[gpu_of(process_id, machine)]
    if found[0] >= 13 and MIN_CAPABILITY <= gpu.capability < MIN_CAPABILITY_OF_CUDA_13:
        yield Lack(
            f"{name} {compiler.version} compiles for compute capability {_text(MIN_CAPABILITY_OF_CUDA_13)} and "
            f"newer; {gpu.name} has {_text(gpu.capability)}",
            _command(*packages, machine=machine, most=(12, 9)),
        )


def _command(*packages: str, machine: Machine, most: Version = (13, 0)) -> str:
    """Return the command that installs packages with a CUDA toolkit compatible with the driver and PyTorch."""
    wanted = min([most, *filter(None, [machine.driver.cuda]), *(_version(c) for c in [machine.pytorch.cuda] if c)])
    named = [package.format(f"cu{wanted[0]}") for package in (*packages, f"cuda-toolkit=={_text(wanted)}.*")]
    return "pip install " + " ".join(f'"{package}"' for package in named)


def _runs_on(architecture: str, capability: Version) -> bool:
    """Return True if code for an architecture (sm_80, compute_90) runs on a GPU; PTX also runs on newer ones."""
    found = re.fullmatch(r"(sm|compute)_(\d+)(\d)[af]?", architecture)
    if not found:
        return False
    built = int(found[2]), int(found[3])
    return built <= capability and (found[1] == "compute" or built[0] == capability[0])


def _version(text: str) -> Version:
    numbers = [int(number) for number in re.findall(r"\d+", text)[:2]]
    return (*numbers, 0, 0)[:2]  # type: ignore[return-value]


def _text(version: Version) -> str:
    return ".".join(map(str, version))
