"""Replicas of the host in several processes or threads, each of which steps an equal share."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import pairwise
from multiprocessing import connection, sharedctypes
from typing import Any, Literal

import cloudpickle  # type: ignore[import-untyped]
import numpy as np

from warpdrive.errors import DefinitionError, WarpDriveError
from warpdrive.interop.host.source import Array, HostReplicas, HostSource
from warpdrive.user_code import describe_error

WorkerType = Literal["process", "thread"]
_ALIGNMENT = 64  # bytes, a cache line
_SECONDS_TO_END = 5.0


def shares(num_envs: int, workers: int) -> list[slice]:
    """Return the ranges of replicas of the workers."""
    bounds = np.linspace(0, num_envs, min(workers, num_envs) + 1).astype(int).tolist()
    return [slice(first, end) for first, end in pairwise(bounds)]


class ThreadedReplicas(HostReplicas):
    """Replicas in threads of this process, for environments that release the global interpreter lock.

    Args:
        source: The description of the environment.
        arrays: The arrays, see :class:`HostReplicas`.
        num_envs: The number of replicas.
        workers: The number of threads.
    """

    def __init__(self, source: HostSource, arrays: Mapping[str, Array], num_envs: int, workers: int) -> None:
        self.num_envs, self.rows = num_envs, shares(num_envs, workers)
        self.parts = [source.open(rows_of(arrays, rows), rows.stop - rows.start) for rows in self.rows]
        self._pool = ThreadPoolExecutor(len(self.parts), thread_name_prefix="warpdrive-host")

    def reset(self, seeds: Sequence[int] | None = None, where: Array | None = None) -> None:
        """See ``HostReplicas``."""
        for part, rows in zip(self.parts, self.rows, strict=True):
            part.reset(None if seeds is None else seeds[rows], None if where is None else where[rows])

    def step(self) -> Iterator[slice]:
        """See ``HostReplicas``."""
        waiting: dict[Future[Any], slice] = {
            self._pool.submit(_step, part): rows for part, rows in zip(self.parts, self.rows, strict=True)
        }
        while waiting:
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                rows = waiting.pop(future)
                future.result()
                yield rows

    def close(self) -> None:
        """See ``HostReplicas``."""
        self._pool.shutdown()
        for part in self.parts:
            part.close()


class ProcessReplicas(HostReplicas):
    """Replicas in other processes, with arrays in shared memory.

    The processes import neither PyTorch nor numba. They are started anew rather than forked, as a process with threads
    cannot be forked safely.

    Args:
        source: The description of the environment.
        arrays: The shared arrays, as returned by :func:`shared_arrays`.
        memory: The memory of these arrays.
        num_envs: The number of replicas.
        workers: The number of processes.

    Raises:
        DefinitionError: If the environment cannot be created in another process.
    """

    def __init__(
        self, source: HostSource, arrays: Mapping[str, Array], memory: Any, num_envs: int, workers: int
    ) -> None:
        self.num_envs, self.rows, self.title = num_envs, shares(num_envs, workers), source.name
        layout = {name: (array.shape, array.dtype.str) for name, array in arrays.items()}
        spawn = multiprocessing.get_context("spawn")
        self._links: list[connection.Connection] = []
        self._processes = []
        code = cloudpickle.dumps(source)
        for rows in self.rows:
            here, there = spawn.Pipe()
            arguments = code, memory, layout, (rows.start, rows.stop), there
            process = spawn.Process(target=_work, args=arguments, daemon=True, name=f"warpdrive-host-{rows.start}")
            process.start()
            there.close()
            self._links.append(here)
            self._processes.append(process)
        for link in self._links:
            self._answer(link)

    def reset(self, seeds: Sequence[int] | None = None, where: Array | None = None) -> None:
        """See ``HostReplicas``."""
        for link, rows in zip(self._links, self.rows, strict=True):
            self._ask(link, "reset", None if seeds is None else seeds[rows], None if where is None else where[rows])
        for link in self._links:
            self._answer(link)

    def step(self) -> Iterator[slice]:
        """See ``HostReplicas``."""
        waiting = dict(zip(self._links, self.rows, strict=True))
        for link in waiting:
            self._ask(link, "step")
        while waiting:
            ready: list[Any] = connection.wait(list(waiting))
            for link in ready:
                self._answer(link)
                yield waiting.pop(link)

    def close(self) -> None:
        """See ``HostReplicas``."""
        for link in self._links:
            try:
                link.send(("close",))
            except (BrokenPipeError, OSError):  # it has ended already
                continue
        for process in self._processes:
            process.join(_SECONDS_TO_END)
            if process.is_alive():
                process.terminate()
        for link in self._links:
            link.close()

    def _ask(self, link: connection.Connection, *request: Any) -> None:
        try:
            link.send(request)
        except (BrokenPipeError, OSError):
            raise self._ended() from None

    def _answer(self, link: connection.Connection) -> None:
        try:
            error = link.recv()
        except (EOFError, ConnectionError):
            raise self._ended() from None
        if error is not None:
            raise DefinitionError(error)

    def _ended(self) -> DefinitionError:
        codes = {process.exitcode for process in self._processes if process.exitcode}
        found = f"exit code {', '.join(map(str, codes))}" if codes else "its connection was closed"
        return DefinitionError(f"{self.title}: a worker process has ended ({found}): see its output above")


def shared_arrays(shapes: Mapping[str, tuple[tuple[int, ...], Any]]) -> tuple[dict[str, Array], Any]:
    """Allocate arrays in memory that other processes can map.

    Args:
        shapes: The shape and dtype of each array.

    Returns:
        The arrays, of zeros, and their memory.
    """
    layout = {name: (shape, np.dtype(dtype).str) for name, (shape, dtype) in shapes.items()}
    memory = sharedctypes.RawArray("b", _offsets(layout)[1])
    return _mapped(memory, layout), memory


def _step(part: HostReplicas) -> None:
    for _ in part.step():
        pass


def rows_of(arrays: Mapping[str, Array], rows: slice) -> dict[str, Array]:
    """Return the views of some replicas' rows."""
    return {name: array[rows] for name, array in arrays.items()}


def _offsets(layout: Mapping[str, tuple[tuple[int, ...], str]]) -> tuple[dict[str, int], int]:
    found, end = {}, 0
    for name, (shape, dtype) in layout.items():
        found[name] = end
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        end += -(-size // _ALIGNMENT) * _ALIGNMENT
    return found, max(end, _ALIGNMENT)


def _mapped(memory: Any, layout: Mapping[str, tuple[tuple[int, ...], str]]) -> dict[str, Array]:
    offsets, _ = _offsets(layout)
    return {
        name: np.frombuffer(memory, dtype, int(np.prod(shape)), offsets[name]).reshape(shape)
        for name, (shape, dtype) in layout.items()
    }


def _work(
    code: bytes,
    memory: Any,
    layout: Mapping[str, tuple[tuple[int, ...], str]],
    bounds: tuple[int, int],
    link: connection.Connection,
) -> None:
    """Process requests for one share of the replicas until ``close``; answer each with the error message, or None."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the training process, which closes this one
    rows = slice(*bounds)
    replicas: HostReplicas | None = None
    try:
        source: HostSource = cloudpickle.loads(code)
        replicas = source.open(rows_of(_mapped(memory, layout), rows), rows.stop - rows.start)
    except Exception as error:
        link.send(_described(error))
        return
    link.send(None)
    while True:
        try:
            request, *arguments = link.recv()
        except (EOFError, ConnectionError):  # the training process has ended
            request = "close"
        if request == "close":
            replicas.close()
            return
        try:
            if request == "step":
                _step(replicas)
            else:
                replicas.reset(*arguments)
            link.send(None)
        except Exception as error:
            link.send(_described(error))


def _described(error: Exception) -> str:
    return str(error) if isinstance(error, WarpDriveError) else describe_error(error)
