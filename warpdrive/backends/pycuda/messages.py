"""Tell what a compiler of CUDA C says, NVRTC or the host's, at the author's file and line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from warpdrive.kernels.errors import KernelError

_DIAGNOSTIC = re.compile(
    r"^(?P<file>[^\n]+?)(?:\((?P<line>\d+)\)|:(?P<number>\d+)(?::\d+)?): "
    r"(?P<kind>(?:catastrophic |fatal )?error|note|warning)(?: #[\w-]+)?: (?P<text>.*)$"
)
"""How NVRTC (``file(line): error: text``) and other compilers (``file:line:column: error: text``) begin."""


@dataclass
class _Diagnostic:
    file: str
    line: int
    is_error: bool
    text: str
    below: list[str]


def compile_error(output: str, authors: Mapping[str, str]) -> KernelError:
    """Return the error that a compiler's output tells: the first that concerns an author's file, if any does.

    ``authors`` holds the texts of the authors' files by path. The message has the line with a caret below.
    """
    diagnostics = list(_diagnostics(output))
    for position, diagnostic in enumerate(diagnostics):
        if diagnostic.is_error:
            place = _author_of(diagnostics[position:], authors)
            if place is not None:
                return _error(place, diagnostic.text)
    first = next((d for d in diagnostics if d.is_error), None)
    if first is not None:
        return _error(first, first.text)
    return KernelError(f"the fused step in CUDA C cannot be compiled: {output.strip()}")


def _diagnostics(output: str) -> Iterator[_Diagnostic]:
    found: _Diagnostic | None = None
    for line in output.splitlines():
        match = _DIAGNOSTIC.match(line)
        if match:
            if found:
                yield found
            number = int(match["line"] or match["number"])
            found = _Diagnostic(match["file"].strip(), number, "error" in match["kind"], match["text"], [])
        elif found:
            found.below.append(line)
    if found:
        yield found


def _author_of(diagnostics: list[_Diagnostic], authors: Mapping[str, str]) -> _Diagnostic | None:
    """Return the author's place of an error: its own, or that of a note below it, as where a macro is used."""
    for diagnostic in diagnostics[:1]:
        if diagnostic.file in authors:
            return diagnostic
    for diagnostic in diagnostics[1:]:
        if diagnostic.is_error:
            return None
        if diagnostic.file in authors:
            return diagnostic
    return None


def _error(place: _Diagnostic, text: str) -> KernelError:
    excerpt = "\n".join(_excerpt(place.below))
    message = f"{place.file}:{place.line}: this cannot be compiled: {text}"
    return KernelError(f"{message}\n{excerpt}" if excerpt else message)


def _excerpt(below: list[str]) -> Iterator[str]:
    """Return the source line and the one with the caret, without what some compilers put in front of them."""
    plain = [re.sub(r"^\s*\d*\s\| ?", "", line) for line in below]
    for position, line in enumerate(plain):
        if re.fullmatch(r"\s*[~^|][\s~^|]*", line) and "^" in line and position > 0:
            yield plain[position - 1]
            yield line
            return
