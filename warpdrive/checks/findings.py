"""What checks find, and the report that collects it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from warpdrive.checks.advice import source_line

OF_KERNELS = (
    *("races", "bounds", "uninitialised", "divergence", "arithmetic"),
    *("broadcasts", "float64", "order", "endless", "nan"),
)
OF_BEHAVIOUR = ("spaces", "resets", "determinism", "reference", "backends")
KINDS = (*OF_KERNELS, *OF_BEHAVIOUR)
"""The lists of a report, in the order they are told."""

Position = int | tuple[int, int, int]
"""A thread or block: a number where the block or grid has one dimension, else ``(x, y, z)``."""


@dataclass(frozen=True)
class Finding:
    """Something wrong with a kernel or an environment, told once however often it happened.

    Attributes:
        kind: the list of the report that it stands in.
        array: the array's name in the kernel; the source text that is to blame where no array is.
        index: the element, of the first time it happened; empty where there is none.
        threads: the threads concerned, the first two of a race in the order they came.
        blocks: the block of each of the ``threads``.
        lines: ``file:line`` of each access concerned; of two accesses in one line, that line twice.
        message: what is wrong, in one sentence.
        advice: what to do about it.
        count: how often it was seen.
    """

    kind: str
    array: str
    index: tuple[int, ...]
    threads: tuple[Position, ...]
    blocks: tuple[Position, ...]
    lines: tuple[str, ...]
    message: str
    advice: str = ""
    count: int = 1

    @property
    def where(self) -> str:
        """Its lines as people read them: each once."""
        return ", ".join(dict.fromkeys(self.lines))

    @property
    def sources(self) -> tuple[str, ...]:
        """The text of each of its ``lines``; empty where that cannot be read."""
        return tuple(map(source_line, self.lines))

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        places = dict(zip(self.lines, self.sources, strict=True))
        shown = [f"{place.rpartition(':')[2]:>6} | {text}" for place, text in places.items() if text]
        what_to_do = [f"       > {self.advice}"] if self.advice else []
        return "\n".join([f"{self.where}: {self.message}{times}", *shown, *what_to_do])


@dataclass
class Report:
    """All findings of a check, by kind. ``notes`` says what could not be checked, and why."""

    races: list[Finding] = field(default_factory=list)
    bounds: list[Finding] = field(default_factory=list)
    uninitialised: list[Finding] = field(default_factory=list)
    divergence: list[Finding] = field(default_factory=list)
    arithmetic: list[Finding] = field(default_factory=list)
    broadcasts: list[Finding] = field(default_factory=list)
    float64: list[Finding] = field(default_factory=list)
    order: list[Finding] = field(default_factory=list)
    endless: list[Finding] = field(default_factory=list)
    nan: list[Finding] = field(default_factory=list)
    spaces: list[Finding] = field(default_factory=list)
    resets: list[Finding] = field(default_factory=list)
    determinism: list[Finding] = field(default_factory=list)
    reference: list[Finding] = field(default_factory=list)
    backends: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return next(iter(self), None) is None

    def __iter__(self) -> Iterator[Finding]:
        for kind in KINDS:
            yield from getattr(self, kind)

    def add(self, finding: Finding) -> None:
        """Add a finding; one that is known already (same kind, array and lines) is counted instead."""
        found: list[Finding] = getattr(self, finding.kind)
        for place, known in enumerate(found):
            if (known.array, sorted(known.lines)) == (finding.array, sorted(finding.lines)):
                found[place] = replace(known, count=known.count + finding.count)
                return
        found.append(finding)

    def join(self, other: Report) -> None:
        """Add what another report has."""
        for finding in other:
            self.add(finding)
        for text in other.notes:
            self.note(text)

    def as_dict(self) -> dict[str, Any]:
        """Return everything in it as lists, dictionaries, strings and numbers, as for JSON."""
        found = {kind: [asdict(f) | {"sources": f.sources} for f in getattr(self, kind)] for kind in KINDS}
        return {"clean": self.clean, **found, "notes": list(self.notes)}

    def note(self, text: str) -> None:
        """Add a note, once."""
        if text not in self.notes:
            self.notes.append(text)

    def __str__(self) -> str:
        findings = list(self)
        lines = [f"{len(findings)} finding{'s' * (len(findings) != 1)}" if findings else "nothing found"]
        width = max((len(finding.kind) for finding in findings), default=0)
        for finding in findings:
            first, *others = str(finding).splitlines()
            lines += [f"  {finding.kind:<{width}}  {first}", *(f"  {'':<{width}}{other}" for other in others)]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)
