"""Separate process that measures the units of ``gpu.py``, so that a crash in one does not affect the others."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

from harness.gpu.plan import Row, Setup, Unit

Measure = Callable[[Unit], Iterator[Row | Setup]]


class Worker:
    """Process that measures units one by one, started on demand.

    Args:
        measure: Yields the results of a unit; a module-level function, or a ``functools.partial`` of one.
        may_go_on: Returns True if the process can measure another unit; called in it after each.
    """

    def __init__(self, measure: Measure, may_go_on: Callable[[], bool]) -> None:
        self._measure, self._may_go_on = measure, may_go_on
        self._process: Any = None
        self._connection: Connection

    def results(self, unit: Unit, seconds: float) -> Iterator[Row | Setup]:
        """Yield the results of a unit as they arrive. A missing or late result becomes a row with an error."""
        expected = unit.expected
        failure = None
        end = time.monotonic() + seconds
        self._start()
        self._connection.send(unit)
        while True:
            if not self._connection.poll(max(0.0, end - time.monotonic())):
                failure = f"took more than {seconds:.0f} s"
                break
            try:
                result = self._connection.recv()
            except EOFError:
                self._process.join()
                failure = f"the process ended with exit code {self._process.exitcode}"
                break
            if isinstance(result, bool):
                if not result:
                    self.close()
                break
            if isinstance(result, str):
                failure = result
                continue
            if isinstance(result, Row):
                expected.remove((result.kind, result.graph))
            yield result
        for kind, graph in expected:
            yield Row(unit.title, 0, unit.replicas, unit.backend, graph, kind, error=failure or "was not measured")
        if failure:
            self.close()

    def close(self) -> None:
        """Terminate the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None
            self._connection.close()

    def _start(self) -> None:
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._connection, theirs = context.Pipe()
            self._process = context.Process(target=_serve, args=(theirs, self._measure, self._may_go_on), daemon=True)
            self._process.start()
            theirs.close()


def _serve(connection: Connection, measure: Measure, may_go_on: Callable[[], bool]) -> None:
    """Send the results of each unit received, a string if the unit failed, and then True if another one may follow."""
    while True:
        try:
            unit = connection.recv()
        except EOFError:
            return
        try:
            for result in measure(unit):
                connection.send(result)
        except Exception as error:
            connection.send(f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"[:300])
        connection.send(may_go_on())
