"""Conditions for capturing steps; ``tests/training/rollout/test_cuda_graph.py`` tests captured graphs on a GPU."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch

from warpdrive.errors import WarpDriveError
from warpdrive.step_graph import WARM_UPS, CudaGraphRecorder, GraphError, StepGraphs, UseCudaGraph

CPU = torch.device("cpu")


class FakeRecorder:
    """Captures as a GPU does: the step is not run then, and its replays do the same work again."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.is_aside = False
        self.recorded = self.replayed = 0

    @contextmanager
    def on_side_stream(self) -> Iterator[None]:
        self.is_aside = True
        try:
            yield
        finally:
            self.is_aside = False

    def record(self, step: Callable[[], None]) -> Callable[[], None]:
        assert self.is_aside
        self.recorded += 1
        if self.failure:
            try:
                raise self.failure
            finally:  # ending a capture that has failed fails again
                raise RuntimeError("the capture was invalidated\nmore about it")

        def replay() -> None:
            self.replayed += 1
            step()

        return replay


class Counter:
    """A device's state: one number, which a step advances where there is room for one step only."""

    def __init__(self) -> None:
        self.value = torch.full((1,), 10.0)
        self.room = 1
        self.steps = 0

    def step(self) -> None:
        assert self.room == 1
        self.room -= 1
        self.steps += 1
        self.value += 1

    def save(self) -> Callable[[], None]:
        value = self.value.clone()

        def restore() -> None:
            self.value.copy_(value)
            self.room = 1

        return restore


def test_a_captured_step_is_replayed_and_leaves_no_trace_before() -> None:
    counter, recorder = Counter(), FakeRecorder()
    step = StepGraphs(CPU, "auto", recorder).repeatable(counter.step, counter.save)
    assert (counter.steps, counter.value.item(), counter.room) == (WARM_UPS, 10.0, 1)
    step()
    assert (recorder.recorded, recorder.replayed, counter.value.item()) == (1, 1, 11.0)


@pytest.mark.parametrize("use", ["auto", "off"])
def test_on_the_cpu_steps_are_called_without_a_word(use: UseCudaGraph) -> None:
    counter = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step = StepGraphs(CPU, use).repeatable(counter.step, counter.save)
    assert counter.steps == 0
    step()
    assert counter.steps == 1


def test_off_is_off_where_there_are_graphs_too() -> None:
    counter, recorder = Counter(), FakeRecorder()
    StepGraphs(CPU, "off", recorder).repeatable(counter.step, counter.save)()
    assert (counter.steps, recorder.recorded) == (1, 0)


def test_on_without_a_gpu_is_an_error() -> None:
    told = "use_cuda_graph is 'on', but the environment runs on the CPU, where there are no CUDA graphs"
    with pytest.raises(GraphError, match=told) as caught:
        StepGraphs(CPU, "on")
    assert isinstance(caught.value, WarpDriveError)


def looking(counter: Counter) -> Callable[[], None]:
    """A step that depends on a number which the host looks at: replayed, it would always do the same."""

    def step() -> None:
        counter.step()
        if counter.value.sum() > 10.5:
            counter.value += 100

    return step


def test_a_step_that_looks_at_the_device_is_called_anew_after_one_warning_that_names_it() -> None:
    counter, recorder = Counter(), FakeRecorder()
    graphs, step = StepGraphs(CPU, "auto", recorder), looking(counter)
    line = step.__code__.co_firstlineno + 2
    told = rf"without a CUDA graph, which is slower: .*test_step_graph.py:{line}: bool\(tensor\)"
    with pytest.warns(RuntimeWarning, match=told):
        repeated = graphs.repeatable(step, counter.save)
    assert (counter.value.item(), counter.room, recorder.recorded) == (10.0, 1, 0)
    repeated()
    assert counter.value.item() == 111.0
    with warnings.catch_warnings():  # no second warning for another step of the trainer, as in an evaluation
        warnings.simplefilter("error")
        assert graphs.repeatable(step, counter.save) is step


def test_on_does_not_fall_back() -> None:
    counter = Counter()
    with pytest.raises(GraphError, match=r"'on', but a step of the rollout cannot be captured: .*bool\(tensor\)"):
        StepGraphs(CPU, "on", FakeRecorder()).repeatable(looking(counter), counter.save)
    assert counter.value.item() == 10.0


def test_a_capture_that_fails_is_told_by_what_failed_first() -> None:
    counter, recorder = Counter(), FakeRecorder(RuntimeError("operation not permitted when stream is capturing"))
    with pytest.warns(RuntimeWarning, match="which is slower: operation not permitted when stream is capturing$"):
        repeated = StepGraphs(CPU, "auto", recorder).repeatable(counter.step, counter.save)
    assert (counter.value.item(), counter.room, recorder.is_aside) == (10.0, 1, False)
    repeated()
    assert counter.value.item() == 11.0


def test_a_mistake_in_the_step_is_not_taken_for_a_step_that_cannot_be_captured() -> None:
    counter = Counter()

    def broken() -> None:
        raise ValueError("a mistake in the model")

    with pytest.raises(ValueError, match="a mistake in the model"):
        StepGraphs(CPU, "auto", FakeRecorder()).repeatable(broken, counter.save)


def test_the_cause_is_told_in_the_words_of_whoever_found_it() -> None:
    counter = Counter()

    def refused() -> None:
        try:
            raise RuntimeError("what a library said")
        except RuntimeError as error:
            raise WarpDriveError("what it means") from error

    with pytest.warns(RuntimeWarning, match="which is slower: what it means$"):
        StepGraphs(CPU, "auto", FakeRecorder()).repeatable(refused, counter.save)


class FakeCuda:
    """Fake of PyTorch's streams and graphs; ``log`` has the calls in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capture_fails: bool = False) -> None:
        self.log: list[str] = []
        self.current = "main"
        for name in ("device", "Stream", "current_stream", "stream", "CUDAGraph", "graph"):
            monkeypatch.setattr(torch.cuda, name, getattr(self, name))
        self.capture_fails = capture_fails

    @contextmanager
    def device(self, device: torch.device) -> Iterator[None]:
        yield

    def Stream(self, device: torch.device) -> FakeStream:  # noqa: N802
        return FakeStream(self, "side")

    def current_stream(self) -> FakeStream:
        return FakeStream(self, self.current)

    @contextmanager
    def stream(self, stream: FakeStream) -> Iterator[None]:
        former, self.current = self.current, stream.name
        try:
            yield
        finally:
            self.current = former

    def CUDAGraph(self) -> FakeGraph:  # noqa: N802
        return FakeGraph(self)

    def graph(self, graph: FakeGraph, stream: FakeStream, capture_error_mode: str) -> FakeCapture:
        return FakeCapture(self, stream, capture_error_mode)


class FakeStream:
    def __init__(self, cuda: FakeCuda, name: str) -> None:
        self.cuda, self.name = cuda, name

    def wait_stream(self, other: FakeStream) -> None:
        self.cuda.log.append(f"{self.name} waits for {other.name}")


class FakeGraph:
    def __init__(self, cuda: FakeCuda) -> None:
        self.cuda = cuda

    def replay(self) -> None:
        self.cuda.log.append(f"replay on {self.cuda.current}")


class FakeCapture:
    """As in PyTorch, a failed capture leaves its stream current."""

    def __init__(self, cuda: FakeCuda, stream: FakeStream, mode: str) -> None:
        self.cuda, self.stream, self.mode = cuda, stream, mode

    def __enter__(self) -> None:
        self.former, self.cuda.current = self.cuda.current, self.stream.name
        self.cuda.log.append(f"capture on {self.stream.name}, errors {self.mode}")

    def __exit__(self, *error: object) -> None:
        if self.cuda.capture_fails:
            raise RuntimeError("the capture was invalidated")
        self.cuda.current = self.former


def test_a_cuda_graph_is_made_on_a_stream_of_its_own_and_replayed_on_the_callers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = FakeCuda(monkeypatch)
    graphs = StepGraphs(CPU, "auto", CudaGraphRecorder(torch.device("cuda", 0)))
    replay = graphs.repeatable(lambda: fake.log.append(f"step on {fake.current}"), lambda: lambda: None)
    replay()
    replay()
    assert fake.log == [
        "side waits for main",
        *["step on side"] * WARM_UPS,
        "capture on side, errors thread_local",
        "step on side",
        "main waits for side",
        *["replay on main"] * 2,
    ]


def test_after_a_capture_that_fails_the_former_stream_is_the_current_one(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCuda(monkeypatch, capture_fails=True)
    graphs = StepGraphs(CPU, "auto", CudaGraphRecorder(torch.device("cuda", 0)))
    with pytest.warns(RuntimeWarning, match="the capture was invalidated"):
        graphs.repeatable(lambda: None, lambda: lambda: None)
    assert fake.current == "main" and fake.log[-1] == "main waits for side"
