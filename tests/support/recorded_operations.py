"""Stand-in for CUDA graphs on the CPU: repeats recorded operations of PyTorch on the memory of the recording.

As in a CUDA graph, numbers of the host, branches, shapes and addresses are those of the recording.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class CallRecorder:
    """Recorder for ``StepGraphs`` that repeats a step by calling it.

    Attributes:
        recorded: number of recordings.
        replayed: number of replays.
    """

    def __init__(self) -> None:
        self.recorded = self.replayed = 0

    @contextmanager
    def on_side_stream(self) -> Iterator[None]:
        yield

    def record(self, step: Callable[[], None]) -> Callable[[], None]:
        self.recorded += 1

        def replay() -> None:
            self.replayed += 1
            step()

        return replay


class OperationRecorder(CallRecorder):
    """Recorder that repeats the operations of a step."""

    def record(self, step: Callable[[], None]) -> Callable[[], None]:
        self.recorded += 1
        with _Recording() as recording:
            step()

        @torch.no_grad()
        def replay() -> None:
            self.replayed += 1
            for function, arguments, named, results in recording.operations:
                again = tree_leaves(function(*arguments, **named))
                for place, result in zip(tree_leaves(results), again, strict=True):
                    if isinstance(place, torch.Tensor) and place.data_ptr() != result.data_ptr():
                        place.copy_(result)

        return replay


class _Recording(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.operations: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        self.operations.append((func, args, kwargs or {}, results))
        return results
