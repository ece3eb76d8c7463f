"""Checks of the launches of a program: data races, indices out of bounds, divergent barriers and the like.

Each launch is interpreted on copies of its arguments before it runs (see :mod:`warpdrive.checks`), as far as the number
of steps allows. Findings are reported when they first occur, and counted.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from warpdrive.backends.shared.arguments import baked_values, resolved_for
from warpdrive.checks.access_log import AccessLog
from warpdrive.checks.checked_interpreter import CheckedInterpreter
from warpdrive.checks.findings import Finding, Report
from warpdrive.checks.float64 import check_types
from warpdrive.checks.grid import Grid
from warpdrive.checks.helpers import HELPERS
from warpdrive.checks.language import kinds_of
from warpdrive.checks.launch import named_arguments
from warpdrive.checks.memory import copies, named_arrays
from warpdrive.checks.program_options import OPTIONAL, STEPS, TITLES
from warpdrive.garbage_collection import no_garbage_collection
from warpdrive.kernels.errors import KernelError
from warpdrive.kernels.lowering import ResolvedKernel
from warpdrive.kernels.turns import turns_of
from warpdrive.numba_cuda import dispatcher
from warpdrive.numba_cuda.dispatcher import CUDADispatcher, Launch

SCHEMA = 1
"""Version of the format of :meth:`Checks.as_dict`."""

_UNLIMITED = 1 << 62
_PACKAGE = str(Path(__file__).parents[1])


class OutOfStepsError(KernelError):
    """Launch that is interpreted up to the limit of steps."""


class _LimitedLog(AccessLog):
    """Access log that ends the interpretation of a launch after ``limit`` steps."""

    def __init__(self, report: Report, grid: Grid, limit: int, **options: Any) -> None:
        self.used, self.limit = 0, limit
        super().__init__(report, grid, max_steps=_UNLIMITED, helpers=HELPERS, **options)

    def count(self) -> None:
        """Count a step. Raises :class:`OutOfStepsError` after the last one."""
        super().count()
        self.used += 1
        if self.used > self.limit:
            raise OutOfStepsError(f"thread {self.me}")


class _Blocks:
    """Order of execution: the outermost blocks first, then blocks spread over the grid, as long as steps are left."""

    def __init__(self, log: _LimitedLog, needs_all: bool) -> None:
        self.log, self.needs_all = log, needs_all
        self.begun = 0
        self.is_within_blocks = False

    def __call__(self, count: int) -> Iterable[int]:
        if self.is_within_blocks:
            return range(count)
        self.is_within_blocks = True
        return self._numbers(count)

    def _numbers(self, count: int) -> Iterator[int]:
        for number in range(count) if self.needs_all else spread(count):
            if self.begun > 1 and self.log.used >= self.log.limit and not self.needs_all:
                return
            self.begun += 1
            yield number


def spread(count: int) -> Iterator[int]:
    """Iterate over numbers below ``count``: the first two, the last, and then in steps that halve."""
    seen = set()
    for number in (0, 1, count - 1):
        if 0 <= number < count and number not in seen:
            seen.add(number)
            yield number
    step = 1 << max(count - 1, 1).bit_length()
    while step >= 1:
        for number in range(step, count, 2 * step):
            if number not in seen:
                seen.add(number)
                yield number
        step //= 2


@dataclass
class Found:
    """Finding in the launches of a kernel.

    Attributes:
        kernel: Name of the kernel.
        defined_at: ``file:line`` of its definition.
        launched_at: ``file:line`` of the first launch with the finding; empty if unknown.
        launch: Number of that launch in the program, from 1 on.
        blocks: Grid of that launch.
        threads: Block of that launch.
        finding: The finding, as it first occurred.
        count: Number of occurrences in all launches.
        launches: Number of launches with the finding.
    """

    kernel: str
    defined_at: str
    launched_at: str
    launch: int
    blocks: tuple[int, int, int]
    threads: tuple[int, int, int]
    finding: Finding
    count: int = 0
    launches: int = 0

    def __str__(self) -> str:
        where = f" at {self.launched_at}" if self.launched_at else ""
        first = f"{TITLES[self.finding.kind]} in kernel '{self.kernel}', launch {self.launch}{where}, "
        first += f"{_size(self.blocks, 'block')} of {_size(self.threads, 'thread')}"
        return "\n".join([first, *(f"  {line}" for line in str(self.finding).splitlines())])


@dataclass
class _Coverage:
    """Extent to which the launches of a kernel were checked.

    Attributes:
        launches: Number of launches.
        whole: Number of launches that were interpreted completely.
        partly: Number of launches that were interpreted in part.
        blocks: Number of blocks that were interpreted in the latter.
        of_blocks: Number of all of their blocks.
        steps: Number of steps that were interpreted.
        reasons: Why the kernel could not be interpreted; empty if it could.
    """

    launches: int = 0
    whole: int = 0
    partly: int = 0
    blocks: int = 0
    of_blocks: int = 0
    steps: int = 0
    reasons: list[str] = field(default_factory=list)


class Checks:
    """Checks of all launches of this process, between :meth:`begin` and :meth:`end`.

    Args:
        kinds: Kinds of findings to report in addition to the usual ones, of ``OPTIONAL``.
        steps: Number of steps for which the launches of a kernel are interpreted; 0 for no limit.
        on_finding: Function that is called with each finding when it first occurs.
    """

    def __init__(
        self, kinds: Sequence[str] = (), steps: int = STEPS, on_finding: Callable[[Found], None] = lambda found: None
    ) -> None:
        self.kinds = [kind for kind in TITLES if kind not in OPTIONAL or kind in kinds]
        self.steps = steps or _UNLIMITED
        self.on_finding = on_finding
        self.found: dict[tuple[Any, ...], Found] = {}
        self.coverage: dict[tuple[str, str], _Coverage] = {}
        self.num_launches = 0
        self._typed: set[Any] = set()
        self._one_at_a_time = threading.RLock()  # threads of the program may launch kernels at once

    @contextmanager
    def active(self) -> Iterator[None]:
        """Check all launches within the block."""
        former, dispatcher.before_launch = dispatcher.before_launch, self.check
        try:
            yield
        finally:
            dispatcher.before_launch = former

    @property
    def is_clean(self) -> bool:
        """True if there are no findings."""
        return not self.found

    def check(self, launch: Launch, arguments: tuple[Any, ...]) -> bool:
        """Check a launch; return False if it must not run, as it would write out of bounds."""
        with self._one_at_a_time:
            return self._check_next(launch, arguments)

    def _check_next(self, launch: Launch, arguments: tuple[Any, ...]) -> bool:
        kernel = launch.dispatcher
        self.num_launches += 1
        coverage = self.coverage.setdefault((kernel.py_func.__name__, _definition(kernel)), _Coverage())
        coverage.launches += 1
        left = self.steps - coverage.steps
        if left < self.steps // 100 or coverage.reasons:
            return True
        report = Report()
        try:
            with no_garbage_collection():
                return self._check(launch, arguments, report, coverage, max(left // 2, 1))
        except KernelError as error:
            if error.__cause__ is None:
                coverage.reasons.append(str(error))
            coverage.whole += error.__cause__ is not None  # an exception of the kernel, which the launch raises, too
            return not report.bounds
        except Exception as error:
            coverage.reasons.append(f"{type(error).__name__}: {error}")
            return True
        finally:
            self._add(launch, report)

    def _check(
        self, launch: Launch, arguments: tuple[Any, ...], report: Report, coverage: _Coverage, limit: int
    ) -> bool:
        kernel = launch.dispatcher
        named = named_arguments(kernel, arguments)
        resolved = _resolved(kernel, named)
        if turns_of(resolved) is not None:
            coverage.reasons.append("its threads wait for each other through memory, which cannot be interpreted")
            return True
        if "float64" in self.kinds:
            self._check_types(kernel, named, report)
        grid = Grid(launch.griddim, launch.blockdim)
        log = _LimitedLog(report, grid, limit if self.steps < _UNLIMITED else _UNLIMITED, nan="nan" in self.kinds)
        blocks = _Blocks(log, needs_all=resolved.grid_barrier is not None)
        given = dict(zip(named, copies(list(named.values())), strict=True))
        is_whole = True
        try:
            CheckedInterpreter(kernel.source, grid, log, shared_bytes=int(launch.sharedmem)).check(given, blocks)
            is_whole = blocks.begun == grid.num_blocks
        except OutOfStepsError:
            is_whole = False
        finally:
            coverage.steps += log.used
        coverage.whole += is_whole
        if not is_whole:
            coverage.partly += 1
            coverage.blocks += blocks.begun
            coverage.of_blocks += grid.num_blocks
        if report.bounds:
            _copy_back(named, given)
        return not report.bounds

    def _check_types(self, kernel: CUDADispatcher, named: dict[str, Any], report: Report) -> None:
        key = kernel, tuple((type(value), getattr(value, "dtype", None)) for value in named.values())
        if key not in self._typed:
            self._typed.add(key)
            check_types(kernel.source, named, report)

    def _add(self, launch: Launch, report: Report) -> None:
        kernel = launch.dispatcher
        name, defined_at = kernel.py_func.__name__, _definition(kernel)
        for finding in report:
            if finding.kind not in self.kinds:
                continue
            key = (name, defined_at, finding.kind, finding.array, tuple(sorted(finding.lines)))
            known = self.found.get(key)
            if known is None:
                place = (_caller(), self.num_launches, launch.griddim, launch.blockdim)
                known = self.found[key] = Found(name, defined_at, *place, finding)
                self.on_finding(known)
            known.count += finding.count
            known.launches += 1

    def summary(self) -> str:
        """Return lines with the numbers of findings and launches, and of those not checked."""
        lines = [f"{len(self.found)} finding{'s' * (len(self.found) != 1)}" if self.found else "nothing found"]
        checked = sum(kernel.whole for kernel in self.coverage.values())
        kernels = f"{len(self.coverage)} kernel{'s' * (len(self.coverage) != 1)}"
        lines[0] += f"; {checked} of {self.num_launches} launches of {kernels} checked"
        for found in self.found.values():
            finding = found.finding
            times = f"{found.count} times in {found.launches} launches" if found.count > 1 else "once"
            lines.append(f"  {TITLES[finding.kind]}: '{found.kernel}', {finding.where or found.defined_at}: {times}")
        for (name, _), kernel in self.coverage.items():
            if kernel.reasons:
                lines.append(f"  not checked: '{name}': {kernel.reasons[0]}")
            elif kernel.whole < kernel.launches:
                blocks = f"{kernel.blocks:,} of {kernel.of_blocks:,} blocks"
                partly = f" and {kernel.partly} in part ({blocks})" * (kernel.partly > 0)
                lines.append(
                    f"  limited: '{name}': {kernel.whole} of {kernel.launches} launches checked{partly}, as a kernel "
                    f"is interpreted for {self.steps:,} steps (--steps)"
                )
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Return the findings as lists, dictionaries, strings and numbers, as for JSON (``docs/guides/checks.md``)."""
        findings = []
        for found in self.found.values():
            own = {key: value for key, value in asdict(found).items() if key != "finding"}
            finding = asdict(found.finding) | {"sources": found.finding.sources}
            own |= {"grid": own.pop("blocks"), "block": own.pop("threads")}
            findings.append({**finding, **own})
        kernels = [
            {"kernel": name, "defined_at": place, **asdict(coverage)}
            for (name, place), coverage in self.coverage.items()
        ]
        return {
            "schema": SCHEMA,
            "clean": self.is_clean,
            "launches": self.num_launches,
            "steps": 0 if self.steps == _UNLIMITED else self.steps,
            "findings": findings,
            "kernels": kernels,
        }


def to_stderr(text: str) -> None:
    """Write a report between the lines of a program."""
    sys.stdout.flush()
    print("\n".join(f"== {line}" for line in text.splitlines()), file=sys.stderr, flush=True)


def _resolved(kernel: CUDADispatcher, named: dict[str, Any]) -> ResolvedKernel:
    return resolved_for(kernel, baked_values(kernel, named), kinds_of(named))


def _copy_back(named: dict[str, Any], given: dict[str, Any]) -> None:
    """Give a launch the results of its interpretation."""
    for item, other in zip(named.items(), given.items(), strict=True):
        for array, result in zip(named_arrays(*item).values(), named_arrays(*other).values(), strict=True):
            if array.flags.writeable:
                array[...] = result


def _definition(kernel: CUDADispatcher) -> str:
    code = kernel.py_func.__code__
    return f"{code.co_filename}:{code.co_firstlineno}"


def _caller() -> str:
    """Return ``file:line`` of the launch in the program."""
    frames = traceback.extract_stack()
    place = next((frame for frame in reversed(frames) if not frame.filename.startswith(_PACKAGE)), None)
    return f"{place.filename}:{place.lineno}" if place else ""


def _size(dimensions: Sequence[int], unit: str) -> str:
    lengths = dimensions[:1] if tuple(dimensions[1:]) == (1, 1) else dimensions
    return f"{' x '.join(map(str, lengths))} {unit}{'s' * (tuple(dimensions) != (1, 1, 1))}"
