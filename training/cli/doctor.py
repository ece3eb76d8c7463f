"""``warpdrive doctor``: report this machine's hardware and software, and what each backend is missing."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from warpdrive import __version__
from warpdrive.backends.system_info import this_machine
from warpdrive.doctor import diagnosis
from warpdrive.training.cli.printing import make_console

_LIBRARIES = {"nvvm": "NVVM", "nvJitLink": "nvJitLink", "nvrtc": "NVRTC"}
_MISSING = "[dim]not installed[/dim]"


def run(options: argparse.Namespace) -> int:
    """Print the diagnosis, and conclusions from it."""
    found = diagnosis(this_machine())
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        print_diagnosis(make_console(), found)
    return 0


def print_diagnosis(console: Console, found: dict[str, Any]) -> None:
    """Print a diagnosis as tables."""
    console.print(
        f"[bold]WarpDrive {__version__}[/bold] on Python {found['python']}, {found['system']}, {found['cores']} "
        f"core{'s' * (found['cores'] != 1)}",
        highlight=False,
        markup=True,
    )
    console.print()
    table = _table("found", "version", "")
    for row in _parts(found):
        table.add_row(*row)
    console.print(table, markup=True)
    console.print()
    table = _table("backend", "usable", "missing requirements, and how to fix them")
    for row in _backends(found):
        table.add_row(*row)
    console.print(table, markup=True)
    console.print()
    reason = ", since numba can be used" if found["auto"] == "numba" else ", since numba cannot be used"
    console.print(
        f"env_backend [bold]auto[/bold] is [bold]{found['auto']}[/bold]{reason}.", highlight=False, markup=True
    )


def _table(*columns: str) -> Table:
    return Table(*columns, box=None, header_style="bold", padding=(0, 2, 0, 0))


def _parts(found: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the rows of the components found."""
    pytorch, driver, packages = found["pytorch"], found["driver"], found["packages"]
    built = f"for CUDA {pytorch['cuda']}: {', '.join(pytorch['architectures'])}" if pytorch["cuda"] else "without CUDA"
    yield "PyTorch", escape(pytorch["version"]), escape(pytorch["failure"]) or f"built {built}"
    for package in ("numba", "numba-cuda"):
        yield package, packages.get(package, _MISSING), ""
    for library, name in _LIBRARIES.items():
        known = found["cuda_libraries"].get(library)
        yield name, (known["version"] or "unknown") if known else _MISSING, escape(known["path"]) if known else ""
    yield "cuda-bindings", packages.get("cuda-bindings", _MISSING), ""
    yield "PyCUDA", packages.get("pycuda", _MISSING), ""
    yield "C++ compiler", "" if found["cxx_compiler"] else _MISSING, escape(found["cxx_compiler"] or "")
    supported = driver["cuda"]
    about = f"supports CUDA up to {_dotted(supported)}" if supported else ""
    yield "NVIDIA driver", driver["release"] or ("" if supported else _MISSING), about
    for index, gpu in enumerate(driver["gpus"]):
        memory = f"{gpu['memory_bytes'] / 2**30:.1f} GiB"
        about = f"compute capability {_dotted(gpu['capability'])}, {memory}, {gpu['multiprocessors']} multiprocessors"
        yield f"GPU {index}", "", f"{escape(gpu['name'])}, {about}"
    if found["visible_devices"] is not None:
        yield "CUDA_VISIBLE_DEVICES", "", escape(repr(found["visible_devices"]))


def _backends(found: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the rows of the backends."""
    for name, about in found["backends"].items():
        lacks = [escape(lack) for lack in about["lacks"]]
        if name == "pycuda" and lacks:
            lacks.append(
                "WARPDRIVE_CUDA_ON_HOST=1 runs CUDA C on the host, for testing"
                + ("" if found["cuda_on_host"] else ", with a C++ compiler (install g++)")
            )
        usable = "[green]yes[/green]" if about["usable"] else "[red]no[/red]"
        for number, lack in enumerate(lacks or [""]):
            yield (name, usable, lack) if number == 0 else ("", "", lack)


def _dotted(version: Any) -> str:
    return ".".join(map(str, version))
