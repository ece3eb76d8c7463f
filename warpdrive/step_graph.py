"""Repeat a step of device work: captured once as a CUDA graph and replayed, or called anew each time."""

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
"""How often a step is run before it is captured: kernels are compiled, and libraries make their workspaces."""


class GraphError(WarpDriveError):
    """A step that cannot be captured as a CUDA graph, where the configuration asks for one."""


class GraphRecorder(Protocol):
    """What captures work on a device."""

    def aside(self) -> AbstractContextManager[None]:
        """Within the block, work goes to a stream of its own: after what was asked for before, before what follows."""

    def record(self, step: Step) -> Step:
        """Return a function that repeats the device work of ``step``, which is captured now and not run. To be called
        within :meth:`aside`.
        """


class CudaGraphRecorder:
    """Captures CUDA graphs on a stream of its own."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream = torch.cuda.Stream(device)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """See :class:`GraphRecorder`. The former stream is the current one again, even after a capture that failed."""
        with torch.cuda.device(self.device):
            self.stream.wait_stream(torch.cuda.current_stream())
            try:
                with torch.cuda.stream(self.stream):
                    yield
            finally:
                torch.cuda.current_stream().wait_stream(self.stream)

    def record(self, step: Step) -> Step:
        """See :class:`GraphRecorder`. Other threads may go on meanwhile."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream, capture_error_mode="thread_local"):
            step()
        return graph.replay


class StepGraphs:
    """Makes steps that are repeated quick to start, as far as the device can.

    Args:
        device: where the work is done.
        use: ``"on"``: as CUDA graphs; ``"auto"``: as CUDA graphs on a GPU if a step can be captured, else, after one
            warning that names the cause, without; ``"off"``: without.
        recorder: what captures; None: CUDA graphs of PyTorch on a GPU, and nothing elsewhere.

    Raises:
        GraphError: ``use`` is ``"on"``, and there is nothing that captures.
    """

    def __init__(self, device: torch.device, use: UseCudaGraph, recorder: GraphRecorder | None = None) -> None:
        if recorder is None and device.type == "cuda":
            recorder = CudaGraphRecorder(device)
        if recorder is None and use == "on":
            raise GraphError(
                f"use_cuda_graph is 'on', but the environment runs on the {device.type.upper()}, where there are no "
                "CUDA graphs: use 'auto' or 'off', or an env_backend that runs on a GPU"
            )
        self.device = device
        self._use, self._recorder = use, recorder

    def repeatable(self, step: Step, save: Callable[[], Callable[[], None]]) -> Step:
        """Return what does the same as ``step`` each time it is called, or ``step`` itself where there is no graph.

        Args:
            step: work on the device at addresses that stay. Nothing in it may depend on the host: a number that changes
                from call to call, a branch.
            save: notes all that ``step`` changes and returns a function that puts it back: this method runs the step a
                few times and leaves everything as it was.

        Raises:
            GraphError: the step cannot be captured and ``use`` is ``"on"``.
        """
        if self._recorder is None or self._use == "off":
            return step
        try:
            with host_transfers_allowed():  # but not by the step
                return self._captured(self._recorder, step, save())
        except (WarpDriveError, RuntimeError) as error:
            cause = _cause(error)
            if self._use == "on":
                raise GraphError(f"use_cuda_graph is 'on', but a step cannot be captured: {cause}") from error
            self._use = "off"  # the next step would fail, too
            told = f"the rollout runs without a CUDA graph, which is slower: {cause}"
            warnings.warn(told, RuntimeWarning, stacklevel=2)
            return step

    def _captured(self, recorder: GraphRecorder, step: Step, restore: Callable[[], None]) -> Step:
        with recorder.aside():
            try:
                for _ in range(WARM_UPS):
                    restore()  # before each: a step may have room for one only
                    # what cannot be captured is found here, with its name; a capture that fails says little
                    with no_host_transfers(self.device):
                        step()
                restore()
                return recorder.record(step)
            finally:
                restore()


def _cause(error: BaseException) -> str:
    """Return what went wrong first: a failed capture fails once more when it is ended."""
    while error.__context__ is not None and not error.__suppress_context__:
        error = error.__context__
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]
