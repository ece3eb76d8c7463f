"""Mapping of compiler errors in generated code to the author's source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from numba.core.errors import NumbaError

from warpdrive.backends.shared.module_writer import GeneratedModule
from warpdrive.backends.shared.numba_messages import in_words, missing_field
from warpdrive.kernels.errors import KernelError, refuse
from warpdrive.kernels.lowering import ResolvedKernel
from warpdrive.kernels.syntax import GENERATED


@contextmanager
def errors_at_their_origin(
    kernel: ResolvedKernel,
    origins: Mapping[str, GeneratedModule],
    errors: type[Exception] | tuple[type[Exception], ...] = NumbaError,
) -> Iterator[None]:
    """Convert a compiler's errors about generated code, by default numba's, into errors about the author's code.

    Args:
        kernel: The kernel, with its names resolved.
        origins: Generated modules, by name.
        errors: Types of the compiler's errors.

    Raises:
        KernelError: In place of such an error, with the author's file and line.
    """
    try:
        yield
    except KeyError as error:  # numba's, for an unknown record field
        functions = (kernel.function, *kernel.function.callees())
        found = missing_field(error.args[0] if error.args else None, (f.source.tree for f in functions))
        if found is None:
            raise
        refuse(*found)
    except errors as error:
        text = str(error)
        named = (match.groups() for match in re.finditer(_PLACE, text, re.MULTILINE))
        places = (_origin(a or b, int(m or n), origins) for a, m, b, n in named)
        known = next((place for place in places if place is not None), None)
        source = kernel.function.source
        file, line = known or (source.file, source.tree.lineno)
        said = _first_sentence(text)
        said = in_words(said, _statements_at(file, line, kernel)) or said
        raise KernelError(f"{file}:{line}: kernel '{source.name}' cannot be compiled: {said}") from error


_PLACE = r'File "([^"]+)", line (\d+)|^During: .* at (\S+) \((\d+)\)$'
"""Pattern of the source locations in numba's messages, during type inference and during compilation."""

_TAKES_MEMORY = "this allocates memory, which a kernel cannot: compute and assign element by element, in a loop"
_IN_WORDS = {
    "NRT required but not enabled": _TAKES_MEMORY,
    "_ol_array_allocate(": _TAKES_MEMORY,
    "'insert_unresolved_ref'": (
        "on a GPU a function can call itself only directly, with the types of its first call, and with a result"
    ),
    "Only accept returning of array passed into the function as argument": (
        "this may copy the array, and a kernel cannot allocate memory: use reshape"
    ),
}
"""Readable messages, by a part of numba's message."""


def _origin(file: str, line: int, origins: Mapping[str, GeneratedModule]) -> tuple[str, int] | None:
    """Return the author's file and line of a line of generated code, or None; numba names the innermost frame first."""
    module = origins.get("twin" if file == "<twin>" else re.split(r"[/\\\\]", file)[-1].removesuffix(".py"))
    return module.origins[line - 1] if module and line <= len(module.origins) else None


def _statements_at(file: str, line: int, kernel: ResolvedKernel) -> Iterator[ast.AST]:
    """Yield the statements in a line of the author's source; for loops and conditions, their heads."""
    for function in (kernel.function, *kernel.function.callees()):
        source = function.source
        statements = [node for node in ast.walk(source.tree) if isinstance(node, ast.stmt) and source.file == file]
        for statement in statements:
            is_compound = hasattr(statement, "body")
            parts = (
                [p for p in ast.iter_child_nodes(statement) if isinstance(p, ast.expr)] if is_compound else [statement]
            )
            yield from (part for part in parts if part.lineno <= line <= (part.end_lineno or 0))


def _first_sentence(text: str) -> str:
    """Return the first sentence of numba's message, without its headings."""
    text = re.sub(r"\x1b\[[0-9;]*m|, defined at \S+ \(\d+\)", "", text)
    text = re.sub(
        rf"\b{GENERATED}(own_|[av]?\d+_|class_[0-9a-f]+_|builtins_|numpy_|math_)?({GENERATED}[av]\d+_)?|(?<=\w)\.\d+(?=')",
        "",
        text,
    )
    text = text.replace("- Resolution failure for literal arguments:", "numba cannot compile this for a kernel:")
    text = text.replace(" npy_", " ")
    ours = re.search(r"TypingError: (cuda\..+)", text)
    if ours:
        return ours[1]
    lines = [line.strip() for line in text.splitlines()]
    said = [line for line in lines if line and not line.startswith("Failed in")]
    signature = next((line.removeprefix(">>> ") for line in said if line.startswith(">>> ")), "")
    sentence = f"{said[0]} {signature}".rstrip() if said else text
    return next((meant for part, meant in _IN_WORDS.items() if part in sentence), sentence)
