"""Exceptions that kernels raise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """Place in a kernel that may raise an exception.

    Attributes:
        file: The file of the statement.
        line: Its line.
        function: The name of the function.
        kind: The class of the exception.
        message: Its message, in which ``{0}``, ``{1}`` ... are placeholders of values known when it is raised.
    """

    file: str
    line: int
    function: str
    kind: type[BaseException]
    message: str

    @property
    def place(self) -> str:
        """Source location ``file:line``."""
        return f"{self.file}:{self.line}"

    def described(self, values: Sequence[int] = ()) -> str:
        """Return the description of the exception, with its place."""
        if self.kind is AssertionError:
            return f"{self.place}: the assertion failed: {self.said(values)}"
        return ": ".join([self.place, self.kind.__name__, *[self.said(values)] * bool(self.message)])

    def said(self, values: Sequence[int] = ()) -> str:
        """Return the message with its values."""
        return self.message.format(*values) if values else self.message


@dataclass(frozen=True)
class Raised:
    """Exception that a thread of a launch has raised.

    Attributes:
        fault: Its place.
        thread: ``threadIdx`` of the thread, and ``blockIdx``; None if they are not known.
        values: The values in its message.
    """

    fault: Fault
    thread: tuple[tuple[int, int, int], tuple[int, int, int]] | None = None
    values: tuple[int, ...] = ()

    def __str__(self) -> str:
        text = self.fault.described(self.values)
        return text if self.thread is None else f"{text} (thread {self.thread[0]} of block {self.thread[1]})"
