"""Griffe extension: cross-references in reStructuredText roles, such as ``:meth:`step```, become links."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:class|meth|func|attr|mod|exc):`~?([^`]+)`")


class Roles(griffe.Extension):
    """Replaces the roles in the docstrings of all objects."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Replace the roles in the docstring of an object."""
        if obj.docstring:
            obj.docstring.value = _ROLE.sub(lambda found: _link(found[1], obj), obj.docstring.value)


def _link(name: str, obj: griffe.Object) -> str:
    """Return an optional cross-reference to a name in the scope of an object."""
    shown = re.sub(r"^warpdrive\.", "wd.", name) if name.count(".") <= 2 else name
    return f'<autoref identifier="{_resolved(name, obj)}" optional><code>{shown}</code></autoref>'


def _resolved(name: str, obj: griffe.Object) -> str:
    first = name.partition(".")[0]
    scope: Any = obj
    while scope is not None:
        if (scope.is_class or scope.is_module) and first in scope.members:
            return f"{scope.path}.{name}"
        scope = scope.parent
    return name
