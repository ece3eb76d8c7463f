"""Translation of CUDA C compiler errors, from NVRTC or the host's compiler, to the author's file and line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from warpdrive.kernels.errors import KernelError

_ERROR = re.compile(
    r"^(?P<file>[^\n]+?)(?:\((?P<line>\d+)\)|:(?P<number>\d+)(?::\d+)?): "
    r"(?:catastrophic |fatal )?error(?: #[\w-]+)?: (?P<text>.*)$"
)
"""Pattern of an error: NVRTC's ``file(line): error: text``, other compilers' ``file:line:column: error: text``."""


def compile_error(output: str, authors: Mapping[str, str]) -> KernelError:
    """Return the error in a compiler's output: the first in an author's file, if there is one.

    ``authors`` holds the texts of the authors' files by path. The message has the line, and a caret if the compiler
    prints one.
    """
    lines = output.splitlines()
    starts = [number for number, line in enumerate(lines) if _ERROR.match(line)]
    for position, start in enumerate(starts):
        above = lines[starts[position - 1] + 1 if position else 0 : start]
        below = lines[start + 1 : starts[position + 1] if position + 1 < len(starts) else len(lines)]
        error = _error_of_author(lines[start], above, below, authors)
        if error is not None:
            return error
    if not starts:
        return KernelError(f"the fused step in CUDA C cannot be compiled: {output.strip()}")
    file, line, text = _parts(lines[starts[0]])
    return _error(file, line, text, _excerpt(lines[starts[0] + 1 :]))


def _error_of_author(
    said: str, above: Sequence[str], below: Sequence[str], authors: Mapping[str, str]
) -> KernelError | None:
    """Return an error in an author's file, or in a library file because of one; None if it is neither."""
    file, line, text = _parts(said)
    if file in authors:
        return _error(file, line, text, _excerpt(below))
    # location of a template's instantiation: above the error with g++, below it with others
    causes = [line for line in above if re.search(r"required from|expansion of|instantiation", line)]
    for cause in [*causes, *below]:
        for author, source in authors.items():
            found = re.search(rf'{re.escape(author)}:(\d+)|at line (\d+) of "?{re.escape(author)}', cause)
            if found:
                number = int(found[1] or found[2])
                return _error(author, number, text, source.splitlines()[number - 1 : number])
    return None


def _parts(said: str) -> tuple[str, int, str]:
    match = _ERROR.match(said)
    assert match is not None
    return match["file"], int(match["line"] or match["number"]), match["text"]


def _error(file: str, line: int, text: str, excerpt: Sequence[str]) -> KernelError:
    return KernelError("\n".join([f"{file}:{line}: this cannot be compiled: {text}", *excerpt]))


def _excerpt(below: Sequence[str]) -> list[str]:
    """Return the source line and the one with the caret, without compiler-specific prefixes."""
    plain = [re.sub(r"^\s*\d*\s\| ?", "", line) for line in below]
    for line, marks in pairwise(plain):
        if "^" in marks and not marks.strip(" ~^|"):
            return [line, marks.rstrip()]
    return []
