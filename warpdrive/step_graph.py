"""Repeated execution of a step on the device: captured once as a CUDA graph and replayed, or called each time.

Only a single step is captured, never a whole rollout: its graph takes the memory of one step and serves rollouts of any
length. The step is run three times on a separate stream under ``no_host_transfers`` and then captured; all state that
it changes is restored before each run and after the capture, so that results are the same with and without a graph.
Operations that cannot be captured, such as a model that reads values on the host, are thus reported with their source
line, which the error of a failed capture does not contain. A graph remains valid while parameters are updated in place,
and while ``EnvWrapper.greedy`` is switched, which is a number on the device.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Literal, Protocol

import torch

from warpdrive.errors import WarpDriveError
from warpdrive.host_transfers import host_transfers_allowed, no_host_transfers

UseCudaGraph = Literal["auto", "on", "off"]
Step = Callable[[], None]

WARM_UPS = 3
"""Number of warm-up runs before capture, in which kernels are compiled and libraries allocate workspaces."""


class GraphError(WarpDriveError):
    """A step that cannot be captured as a CUDA graph though the configuration requires it."""


class GraphRecorder(Protocol):
    """Protocol for objects that capture work on a device."""

    def on_side_stream(self) -> AbstractContextManager[None]:
        """Run work within the block on a separate stream, ordered after earlier and before later work."""

    def record(self, step: Step) -> Step:
        """Capture the device work of ``step`` without running it, and return a function that replays it.

        Must be called within :meth:`on_side_stream`.
        """


class CudaGraphRecorder:
    """Captures CUDA graphs on a separate stream."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream = torch.cuda.Stream(device)

    @contextmanager
    def on_side_stream(self) -> Iterator[None]:
        """See :class:`GraphRecorder`. The previous stream is restored even after a failed capture."""
        with torch.cuda.device(self.device):
            self.stream.wait_stream(torch.cuda.current_stream())
            try:
                with torch.cuda.stream(self.stream):
                    yield
            finally:
                torch.cuda.current_stream().wait_stream(self.stream)

    def record(self, step: Step) -> Step:
        """See :class:`GraphRecorder`. Other threads may continue to work meanwhile."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream, capture_error_mode="thread_local"):
            step()
        return graph.replay


class StepGraphs:
    """Captures repeated steps as graphs, if the device supports it.

    Args:
        device: The device of the work.
        use: ``"on"``: use CUDA graphs; ``"auto"``: use CUDA graphs on a GPU if a step can be captured, otherwise warn
            once with the cause and run without; ``"off"``: do not use graphs.
        recorder: The object that captures. If None, PyTorch's CUDA graphs on a GPU, and nothing elsewhere.
        work: The work that the steps are part of, for messages.

    Raises:
        GraphError: If ``use`` is ``"on"``, and no recorder is available.
    """

    def __init__(
        self, device: torch.device, use: UseCudaGraph, recorder: GraphRecorder | None = None, work: str = "the rollout"
    ) -> None:
        if recorder is None and device.type == "cuda":
            recorder = CudaGraphRecorder(device)
        if recorder is None and use == "on":
            raise GraphError(
                f"use_cuda_graph is 'on', but the environment runs on the {device.type.upper()}, where there are no "
                "CUDA graphs: use 'auto' or 'off', or an env_backend that runs on a GPU"
            )
        self.device = device
        self._use, self._recorder, self._work = use, recorder, work

    @property
    def captures(self) -> bool:
        """True if steps are captured: there are graphs, and none has failed."""
        return self._recorder is not None and self._use != "off"

    def repeatable(self, step: Step, save: Callable[[], Callable[[], None]]) -> Step:
        """Return a function equivalent to ``step``, replaying a graph if possible, or ``step`` itself otherwise.

        Args:
            step: Work on the device at fixed addresses. It must not depend on the host: no values that change from call
                to call, no branches.
            save: Saves all state that ``step`` changes and returns a function that restores it. This method runs the
                step a few times and leaves the state unchanged.

        Raises:
            GraphError: If the step cannot be captured and ``use`` is ``"on"``.
        """
        if self._recorder is None or not self.captures:
            return step
        try:
            with host_transfers_allowed():  # but not within the step
                return self._captured(self._recorder, step, save())
        except (WarpDriveError, RuntimeError) as error:
            cause = _cause(error)
            if self._use == "on":
                raise GraphError(
                    f"use_cuda_graph is 'on', but a step of {self._work} cannot be captured: {cause}"
                ) from error
            self._use = "off"  # the next step would fail as well
            message = f"{self._work} runs without a CUDA graph, which is slower: {cause}"
            warnings.warn(message, RuntimeWarning, stacklevel=2)
            return step

    def _captured(self, recorder: GraphRecorder, step: Step, restore: Callable[[], None]) -> Step:
        with recorder.on_side_stream():
            try:
                for _ in range(WARM_UPS):
                    restore()  # before each run: a step may have capacity for one only
                    # reports operations that cannot be captured by name; a failed capture is less informative
                    with no_host_transfers(self.device):
                        step()
                restore()
                return recorder.record(step)
            finally:
                restore()


def _cause(error: BaseException) -> str:
    """Return the original cause of an error: a failed capture raises again when it is ended."""
    while error.__context__ is not None and not error.__suppress_context__:
        error = error.__context__
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]
