"""Gather the wheels missing on a GPU machine without a network: `make gpu-wheels`.

    python tools/gather_wheels.py                         # into wheels/, for Python 3.12 on Linux x86-64
    python tools/gather_wheels.py --present pip-list.txt  # what `pip list` printed there need not be carried

Gathered are the dependencies of WarpDrive, pytest, pytest-xdist and ale-py, which has the ROMs of Atari games; tests
that compare with other libraries are skipped there. The machine is taken to have PyTorch, numba, numba-cuda, and what
these need. With a CUDA toolkit here (`nvcc`) and an interpreter of the machine's Python version, PyCUDA's wheel is
built as well, which is published as source only. There, `make gpu-test` and `make gpu-benchmark` install what is in the
folder and missing.
"""

from __future__ import annotations

import argparse
import email
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

if sys.version_info < (3, 11):
    raise SystemExit("wheels are gathered with Python 3.11 or newer: make PYTHON=python3.12 gpu-wheels")

from install_offline import Requirement, plain, requirements

PROJECT = Path(__file__).parents[1]
PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in (39, 35, 34, 31, 28, 27, 24, 17, 12, 5)]
PLATFORMS += ["manylinux2014_x86_64", "manylinux1_x86_64", "linux_x86_64"]
PRESENT = {
    *("torch", "triton", "numba", "llvmlite", "numpy", "numba-cuda", "jax", "jaxlib", "scipy"),
    *("sympy", "mpmath", "networkx", "jinja2", "markupsafe", "filelock", "fsspec"),
}
"""Packages assumed to be installed, in addition to all whose names begin with ``cuda-`` or ``nvidia-``."""
NEEDED_BY_PYCUDA = ("pytools", "platformdirs", "mako", "siphash24")
MAX_MEGABYTES = 60
PYCUDA = "pycuda"


def main() -> None:
    """Gather the wheels, and print their names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=PROJECT / "wheels", help="output folder (default: wheels/)")
    parser.add_argument(
        "--python", default="3.12", metavar="VERSION", help="Python version of the machine (default: 3.12)"
    )
    parser.add_argument(
        "--present", type=Path, metavar="FILE", help="output of `pip list` on the machine; its packages are skipped"
    )
    parser.add_argument(
        "--interpreter", metavar="PATH", help="interpreter that builds PyCUDA (default: python<VERSION> on the PATH)"
    )
    parser.add_argument("--no-pycuda", action="store_true", help="skip building PyCUDA")
    options = parser.parse_args()
    present = PRESENT | (_names_in(options.present.read_text()) if options.present else set())
    options.folder.mkdir(parents=True, exist_ok=True)
    for former in options.folder.glob("*.whl"):  # and nothing else, whatever folder was named
        former.unlink()
    _gather(options.folder, options.python, present)
    if not options.no_pycuda:
        _build_pycuda(options.folder, options.interpreter or f"python{options.python}")
    _report(options.folder)


def _names_in(pip_list: str) -> set[str]:
    return {plain(words[0]) for line in pip_list.splitlines() if (words := re.split(r"[\s=]+", line.strip()))[0]}


def _gather(folder: Path, python: str, present: set[str]) -> None:
    """Download the wheels that WarpDrive and its tests need and the machine lacks, level by level of dependencies."""
    wanted = [*map(str, requirements().values()), *NEEDED_BY_PYCUDA]
    known = set(present)
    while wanted := [text for text in wanted if _is_lacking(text, known, python)]:
        known |= {plain(Requirement(text).name) for text in wanted}
        before = set(folder.glob("*.whl"))
        print(f"downloading {', '.join(sorted(plain(Requirement(text).name) for text in wanted))}", flush=True)
        _download([str(_without_marker(text)) for text in wanted], folder, python)
        wanted = [text for wheel in set(folder.glob("*.whl")) - before for text in _requirements_of(wheel)]


def _is_lacking(text: str, known: set[str], python: str) -> bool:
    requirement, name = Requirement(text), plain(Requirement(text).name)
    environment = {"python_version": python, "python_full_version": f"{python}.0", "extra": ""}
    environment |= {
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": "x86_64",
        "os_name": "posix",
    }
    is_meant = requirement.marker is None or requirement.marker.evaluate(environment)
    return is_meant and name not in known and not name.startswith(("cuda-", "nvidia-"))


def _without_marker(text: str) -> Requirement:
    requirement = Requirement(text)
    requirement.marker = None
    return requirement


def _requirements_of(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name)).get_all("Requires-Dist", [])


def _download(requirements: list[str], folder: Path, python: str) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += [f"--dest={folder}", "--only-binary=:all:", f"--python-version={python}", "--implementation=cp"]
    command += [f"--platform={platform}" for platform in PLATFORMS]
    command += [f"--constraint={PROJECT / 'constraints.txt'}", *requirements]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        errors = [line for line in result.stderr.splitlines() if line.startswith("ERROR")]
        raise SystemExit(f"pip could not find wheels for Python {python}:\n" + "\n".join(errors))


def _build_pycuda(folder: Path, interpreter: str) -> None:
    """Build PyCUDA for the machine's Python, if the toolkit and that Python are here."""
    toolkit = _toolkit()
    runs = shutil.which(interpreter) and not subprocess.run([interpreter, "-c", ""], capture_output=True).returncode
    if toolkit is None or not runs:
        missing = "a CUDA toolkit (set CUDA_HOME)" if toolkit is None else f"{interpreter} (--interpreter)"
        print(f"PyCUDA was skipped: it is published as source only, and building it needs {missing}")
        return
    with tempfile.TemporaryDirectory() as home:
        stub = _driver_stub(Path(home))
        has_curand = (toolkit / "include" / "curand.h").exists()
        settings = f"CUDA_ROOT = {str(toolkit)!r}\nCUDA_ENABLE_CURAND = {has_curand}\n"
        Path(home, ".aksetup-defaults.py").write_text(settings)
        environment = {
            **os.environ,
            "HOME": home,
            "PATH": f"{toolkit / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "LDFLAGS": f"-L{stub.parent} -Wl,--no-as-needed",
            "LIBRARY_PATH": f"{stub.parent}{os.pathsep}{os.environ.get('LIBRARY_PATH', '')}",
        }
        command = [interpreter, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
        print("building PyCUDA (a minute or two)", flush=True)
        result = subprocess.run(
            [*command, f"--wheel-dir={folder}", PYCUDA], env=environment, capture_output=True, text=True
        )
    if result.returncode:
        print(f"PyCUDA was skipped: the build failed:\n{result.stderr.strip()[-2000:]}")


def _toolkit() -> Path | None:
    """Return the folder of a CUDA toolkit with headers, or None."""
    compiler = shutil.which("nvcc")
    named = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    candidates = [Path(folder) for folder in named if folder] + ([Path(compiler).resolve().parents[1]] * bool(compiler))
    return next((folder for folder in candidates if (folder / "include" / "cuda.h").exists()), None)


def _driver_stub(folder: Path) -> Path:
    """Build a stub ``libcuda.so`` to link with; the real one is only present on machines with a GPU."""
    stub = folder / "libcuda.so"
    compiler = os.environ.get("CC") or shutil.which("cc") or "gcc"
    subprocess.run([compiler, "-shared", "-o", stub, "-Wl,-soname,libcuda.so.1", "-x", "c", os.devnull], check=True)
    return stub


def _report(folder: Path) -> None:
    wheels = sorted(folder.glob("*.whl"))
    for wheel in wheels:
        print(f"{wheel.stat().st_size / 1e6:6.1f} MB  {wheel.name}")
    total = sum(wheel.stat().st_size for wheel in wheels) / 1e6
    print(f"{total:6.1f} MB  {len(wheels)} wheels in {folder}")
    if total > MAX_MEGABYTES:
        raise SystemExit(f"that is more than {MAX_MEGABYTES} MB: list the packages of the machine with --present")


if __name__ == "__main__":
    main()
