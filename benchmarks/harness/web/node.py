"""Programs of pages in Node.js."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

import warpdrive.training.web.page
from warpdrive.training.web.program import Program

ENGINE = Path(warpdrive.training.web.page.__file__).parent / "assets" / "engine.js"


class Node:
    """Process of Node.js that steps a program.

    Args:
        program: The program.
        replicas: The number of replicas.
        seed: The seed of their random streams.
    """

    def __init__(self, program: Program, replicas: int, seed: int) -> None:
        node = shutil.which("node")
        if node is None:
            raise SystemExit("node is not installed, in which programs of pages are measured")
        self._folder = tempfile.TemporaryDirectory()
        path = Path(self._folder.name) / "program.json"
        path.write_text(json.dumps({**program.packed(), "description": program.description}))
        command = [node, str(Path(__file__).with_name("run.mjs")), str(ENGINE), str(path), str(replicas), str(seed)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def seconds(self, steps: int) -> float:
        """Take steps; return the seconds that they took."""
        return float(self._answer(str(steps)))

    def digest_of_steps(self, steps: int) -> str:
        """Take steps; return the hash of the states after each of them, in hexadecimal digits."""
        return self._answer(f"digest {steps}")

    def _answer(self, line: str) -> str:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def __enter__(self) -> Node:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait()
        self._folder.cleanup()
