"""Live displays on a terminal, or in the output of a notebook cell."""

from __future__ import annotations

import io
import time
from typing import Any, Protocol

from rich.console import Console, RenderableType
from rich.live import Live

from warpdrive.training.progress.console import is_live

_SECONDS_BETWEEN_DRAWINGS = 0.25  # for notebooks, whose output goes through a server
_NOTEBOOK_COLUMNS = 100
_AS_TEXT = "<pre style='white-space: pre; overflow-x: auto; line-height: normal'>{code}</pre>"


class Display(Protocol):
    """Display of one item at a time, which replaces the previous one."""

    def show(self, content: RenderableType) -> None:
        """Draw ``content`` now or soon."""

    def stop(self) -> None:
        """Keep the last content, and stop drawing."""


def display_on(console: Console, transient: bool = False) -> Display | None:
    """Return the display for a console; None if it is append-only, such as files and pipes.

    ``transient`` displays on a terminal are erased when they are stopped.
    """
    if console.is_jupyter:
        return NotebookDisplay()
    return TerminalDisplay(console, transient) if is_live(console) else None


class TerminalDisplay:
    """Display that redraws the last lines of a terminal."""

    def __init__(self, console: Console, transient: bool) -> None:
        self._live = Live(console=console, refresh_per_second=8, transient=transient)

    def show(self, content: RenderableType) -> None:
        """See :class:`Display`."""
        self._live.update(content)
        if not self._live.is_started:
            self._live.start()

    def stop(self) -> None:
        """See :class:`Display`."""
        self._live.stop()


class NotebookDisplay:
    """Display that redraws an output of the current notebook cell, as coloured text without widgets."""

    def __init__(self) -> None:
        import IPython.display as notebook

        self._handle: Any = notebook.display(self._html(""), display_id=True)
        self._content: RenderableType = ""
        self._drawn = -_SECONDS_BETWEEN_DRAWINGS

    def show(self, content: RenderableType) -> None:
        """See :class:`Display`."""
        self._content = content
        if time.monotonic() - self._drawn >= _SECONDS_BETWEEN_DRAWINGS:
            self._draw()

    def stop(self) -> None:
        """See :class:`Display`."""
        self._draw()

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        self._handle.update(self._html(self._content))

    @staticmethod
    def _html(content: RenderableType) -> object:
        import IPython.display as notebook

        console = Console(file=io.StringIO(), record=True, force_jupyter=False, width=_NOTEBOOK_COLUMNS)
        console.print(content)
        html = console.export_html(inline_styles=True, code_format=_AS_TEXT)
        return notebook.HTML(html)
