"""A console on which texts are texts, whatever they hold."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from warpdrive.terminal import plain


class PlainConsole(Console):
    """Writes control characters of others as text, see ``terminal.plain``. Its own, for colours and bars, stay."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Go through what is written."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(plain(segment.text), segment.style)
