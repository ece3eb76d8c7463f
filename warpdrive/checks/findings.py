"""Findings of the checks, and the report that collects them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from warpdrive.checks.advice import source_line

OF_KERNELS = (
    *("races", "bounds", "uninitialised", "divergence", "arithmetic"),
    *("conversions", "broadcasts", "float64", "order", "endless", "nan"),
)
OF_BEHAVIOUR = ("spaces", "resets", "determinism", "reference", "backends")
KINDS = (*OF_KERNELS, *OF_BEHAVIOUR)
"""Lists of a report, in the order of output."""

Position = int | tuple[int, int, int]
"""Thread or block: a number if the block or grid has one dimension, else ``(x, y, z)``."""


@dataclass(frozen=True)
class Finding:
    """Error in a kernel or an environment, reported once with a count.

    Attributes:
        kind: List of the report that it belongs to.
        array: Name of the array in the kernel; the source text at fault if there is no array.
        index: Index of the element at the first occurrence; empty if there is none.
        threads: Threads concerned; for a race the first two, in the order of their accesses.
        blocks: Block of each of the ``threads``.
        lines: ``file:line`` of each access concerned; two accesses in one line list it twice.
        message: Description of the error, in one sentence.
        advice: How to fix it.
        count: Number of occurrences.
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
        """Distinct lines, as text."""
        return ", ".join(dict.fromkeys(self.lines))

    @property
    def sources(self) -> tuple[str, ...]:
        """Source text of each of its ``lines``; empty if it cannot be read."""
        return tuple(map(source_line, self.lines))

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        places = dict(zip(self.lines, self.sources, strict=True))
        shown = [f"{place.rpartition(':')[2]:>6} | {text}" for place, text in places.items() if text]
        what_to_do = [f"       > {self.advice}"] if self.advice else []
        return "\n".join([f"{self.where}: {self.message}{times}", *shown, *what_to_do])


@dataclass
class Report:
    """Findings of a check, by kind. ``notes`` lists omitted checks, with the reason."""

    races: list[Finding] = field(default_factory=list)
    bounds: list[Finding] = field(default_factory=list)
    uninitialised: list[Finding] = field(default_factory=list)
    divergence: list[Finding] = field(default_factory=list)
    arithmetic: list[Finding] = field(default_factory=list)
    conversions: list[Finding] = field(default_factory=list)
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
        """True if there are no findings."""
        return next(iter(self), None) is None

    def __iter__(self) -> Iterator[Finding]:
        for kind in KINDS:
            yield from getattr(self, kind)

    def add(self, finding: Finding) -> None:
        """Add a finding, or increase the count of one with the same kind, array and lines."""
        found: list[Finding] = getattr(self, finding.kind)
        for place, known in enumerate(found):
            if (known.array, sorted(known.lines)) == (finding.array, sorted(finding.lines)):
                found[place] = replace(known, count=known.count + finding.count)
                return
        found.append(finding)

    def join(self, other: Report) -> None:
        """Add the findings and notes of another report."""
        for finding in other:
            self.add(finding)
        for text in other.notes:
            self.note(text)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as lists, dictionaries, strings and numbers, as for JSON."""
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
