"""Run tests of CUDA programs with ``pytest -p warpdrive.numba_cuda`` and count passed, failed and refused ones.

    python benchmarks/numba_cuda_tests.py FOLDER [--only test_atomics ...] [--jobs 2] [--list failed]

FOLDER holds test files, such as ``numba/cuda/tests/cudapy`` of numba. Each file runs in a process of its own with a
time limit; a refused test is one that ends with an error about an unsupported construct, with file and line.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from harness.measure import machine

REFUSAL = re.compile(
    r"is not part of the kernel language|not possible in a kernel|can be called and passed to|a kernel can use numbers|"
    r"does not support|cannot be linked|cannot be called on the CPU|for this processor|compiled for the CPU|"
    r"without a GPU|needs a GPU|are not supported on|cannot be read|as (its|a) value|a kernel takes|"
    r"kernel function is a"
)
"""Words of the messages with which kernels and functions are refused."""


class Outcome(NamedTuple):
    """Outcome of a test: ``passed``, ``skipped``, ``refused`` or ``failed``, with the last line of its error."""

    test: str
    kind: str
    reason: str = ""


def run_file(file: Path, seconds: int) -> list[Outcome]:
    """Return the outcomes of the tests in a file."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "warpdrive.numba_cuda", "-p", "no:cacheprovider"]
        if "TestCase" in file.read_text():  # functions named test_... are kernels
            command += ["-o", "python_functions="]
        command += ["-p", "no:xdist", "--import-mode=importlib", f"--junitxml={report}", "-o", "addopts=", str(file)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder, start_new_session=True
        )
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)  # with its children
            process.kill()
            process.wait()
            return [Outcome(file.stem, "failed", f"the file took more than {seconds} seconds")]
        if not report.exists():
            return [Outcome(file.stem, "failed", f"the process ended with {process.returncode}: {_last_line(output)}")]
        return [_outcome(file, case) for case in ElementTree.parse(report).iter("testcase")]


def _outcome(file: Path, case: ElementTree.Element) -> Outcome:
    test = f"{file.stem}::{case.get('name')}"
    for child in case:
        if child.tag == "skipped":
            return Outcome(test, "skipped", child.get("message") or "")
        if child.tag in ("failure", "error"):
            text = " ".join(f"{child.get('message') or ''}\n{child.text or ''}".split())
            kind = "refused" if REFUSAL.search(text) else "failed"
            return Outcome(test, kind, _last_line(child.get("message") or child.text or ""))
    return Outcome(test, "passed")


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[0].strip()[:200] if lines else ""


def _general(reason: str) -> str:
    """Return a reason without its file, line and names, so that equal ones are counted together."""
    reason = re.sub(r"\S+?\.py:\d+: |<\w+>:\d+: |^warpdrive\.[\w.]+: ", "", reason)
    return re.sub(r"'[^']*'|0x[0-9a-f]+|\d+", "…", reason)[:120]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table of the files, and one of the reasons of failures and refusals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of test files")
    parser.add_argument("--only", nargs="+", default=[], help="names of test files, without .py")
    parser.add_argument("--jobs", type=int, default=2, help="files at a time (default: 2)")
    parser.add_argument("--seconds", type=int, default=120, help="time limit of a file (default: 120)")
    parser.add_argument("--list", nargs="*", default=[], help="kinds of tests to list with their reasons")
    options = parser.parse_args(arguments)
    files = sorted(file for file in options.folder.glob("test_*.py") if not options.only or file.stem in options.only)
    with ThreadPoolExecutor(options.jobs) as pool:
        found = list(pool.map(lambda file: run_file(file, options.seconds), files))
    kinds = ("passed", "failed", "refused", "skipped")
    print(f"{machine()}\n")
    print(f"| file | {' | '.join(kinds)} |\n| --- | {' | '.join(['---:'] * len(kinds))} |")
    for file, outcomes in zip(files, found, strict=True):
        counts = Counter(outcome.kind for outcome in outcomes)
        print(f"| {file.stem} | {' | '.join(str(counts[kind]) for kind in kinds)} |")
    whole = [outcome for outcomes in found for outcome in outcomes]
    counts = Counter(outcome.kind for outcome in whole)
    print(f"| all | {' | '.join(str(counts[kind]) for kind in kinds)} |")
    for kind in ("failed", "refused"):
        print(f"\n| {kind}, because | tests |\n| --- | ---: |")
        for reason, count in Counter(_general(o.reason) for o in whole if o.kind == kind).most_common():
            print(f"| {reason.replace('|', '/')} | {count} |")
    for outcome in whole:
        if outcome.kind in options.list:
            print(f"{outcome.kind}: {outcome.test}: {outcome.reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
