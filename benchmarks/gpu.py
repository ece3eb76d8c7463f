"""Measure the GPU backends: steps per second of every workload, compared with the memory limit and with JAX.

    make gpu-benchmark                                # on a machine with a GPU, within ten minutes
    python benchmarks/gpu.py --backend cpu --quick    # on any machine: a small version on the CPU backend

Writes one table, and one JSON file in benchmarks/results/. Fractions in the table are of the limit: the bytes that a
step has to move (harness/traffic.py) at the bandwidth of a copy, measured in the same run. Workloads that fit into the
GPU's cache may exceed it. "memory" is the GPU memory used by the replicas, and the size according to
`ctx.memory_report()`. "at once" is the number of replicas that the GPU steps concurrently, by the registers, threads
and shared memory of the recorded step. "first step" is the time in seconds from the environment to the end of its first
step, at first with an empty cache, including compilation. A step of Atari is four frames.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from harness.gpu.plan import CONFIGURATIONS, KINDS, Row, Setup, Unit, units
from harness.gpu.report import Report
from harness.gpu.unit import measure
from harness.gpu.worker import Worker
from harness.measure import machine
from harness.traffic import copy_bandwidth

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("torch", "numba", "numba-cuda", "cuda-bindings", "pycuda", "jax", "numpy")
MAX_SECONDS_OF_A_UNIT = 160.0  # the first unit of Atari compiles for more than a minute


def main() -> None:
    """Run the measurements until they are complete or the time limit is reached."""
    options = _options()
    end = time.monotonic() + 60 * options.minutes
    on_gpu = any(backend not in ("cpu", "jax") for backend in options.backend)
    device = torch.device("cuda" if on_gpu else "cpu")
    if on_gpu and not torch.cuda.is_available():
        raise SystemExit(f"PyTorch {torch.__version__} sees no GPU here: try --backend cpu --quick")
    about = _about(device, options)
    bandwidth = about["copy_bytes_per_second"]
    report = Report(options.output or RESULTS / _file_name(about), about)
    print(f"{about['device']}: copies move {bandwidth / 1e9:,.0f} GB/s\n{about['machine']}\n", flush=True)
    torch.cuda.empty_cache()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["WARPDRIVE_CACHE_DIR"] = cache  # so that compiling is measured, too
        os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
        seconds = options.seconds or (0.1 if options.quick else 0.5)
        _run(report, options, partial(measure, bandwidth=bandwidth, seconds=seconds), end, on_gpu)
    print(f"\n{report.table()}\n\nwritten to {report.path}")
    if not any(row.steps_per_second for row in report.rows):
        raise SystemExit("nothing could be measured")


def _run(report: Report, options: argparse.Namespace, measuring: Any, end: float, on_gpu: bool) -> None:
    worker = Worker(measuring, _device_works)
    for unit in units(options.backend, quick=options.quick, on_gpu=on_gpu):
        if not unit.title.startswith(options.only):
            continue
        left = end - time.monotonic()
        if unit.backend == "jax":
            worker.close()  # two frameworks in one process would share the GPU's memory
        found = worker.results(unit, min(left, MAX_SECONDS_OF_A_UNIT)) if left > 5 else _out_of_time(unit)
        for result in found:
            report.add(result)
            report.write()
            if isinstance(result, Row):
                figure = result.error or f"{result.steps_per_second:,.0f} steps per second"
                told = f"{result.title}, {result.replicas:,}, {result.backend}{', graph' * result.graph}"
                print(f"{told}: {result.kind}: {figure}", flush=True)
        if unit.backend == "jax":
            worker.close()
    worker.close()


def _out_of_time(unit: Unit) -> list[Row | Setup]:
    return [
        Row(unit.title, 0, unit.replicas, unit.backend, graph, kind, error="not measured: time limit reached")
        for kind, graph in unit.expected
    ]


def _device_works() -> bool:
    """Return True if the GPU still works: an illegal access makes it unusable for the rest of the process."""
    try:
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
    except RuntimeError:
        return False
    return True


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--backend",
        action="append",
        help="cpu, numba, pycuda or jax; may be repeated (default: all installed ones for GPUs)",
    )
    parser.add_argument("--quick", action="store_true", help="a few small workloads, measured briefly")
    parser.add_argument(
        "--only", default="", metavar="TITLE", help="only workloads whose titles start with this, such as cartpole"
    )
    parser.add_argument(
        "--minutes", type=float, default=8.5, help="time limit; workloads that remain are skipped (default: 8.5)"
    )
    parser.add_argument("--seconds", type=float, help="seconds per measurement (default: 0.5; with --quick: 0.1)")
    parser.add_argument(
        "--output", type=Path, help="path of the JSON file (default: benchmarks/results/<date>_<gpu>.json)"
    )
    options = parser.parse_args()
    installed = [name for name in ("pycuda", "jax") if importlib.util.find_spec(name)]
    options.backend = options.backend or ["numba", *installed]
    return options


def _about(device: torch.device, options: argparse.Namespace) -> dict[str, Any]:
    """Return the machine, versions and settings of the measurement."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU {platform.machine()}"
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": " ".join(["python", *sys.argv]),
        "device": name,
        "driver": _driver_version() if device.type == "cuda" else None,
        "cuda_of_torch": torch.version.cuda,
        "machine": machine(),
        "python": platform.python_version(),
        "versions": {package: found for package in PACKAGES if (found := _version(package))},
        "commit": _commit(),
        "copy_bytes_per_second": copy_bandwidth(device, 64 if options.quick else 1024),
        "kinds": KINDS,
        "configurations": CONFIGURATIONS,
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _driver_version() -> str | None:
    return _printed("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")


def _commit() -> str | None:
    return _printed("git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD")


def _printed(*command: str) -> str | None:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() or None
    except (OSError, subprocess.CalledProcessError):
        return None


def _file_name(about: dict[str, Any]) -> str:
    return f"{about['date'][:10]}_{re.sub(r'[^a-z0-9]+', '-', about['device'].lower())}.json"


if __name__ == "__main__":
    main()
