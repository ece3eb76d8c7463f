"""Models of users' own: known by a name, or by where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from warpdrive.errors import DefinitionError, nearest, shown
from warpdrive.importing import load_attribute

if TYPE_CHECKING:
    from warpdrive.training.models.base import ActorCritic

_registered: dict[str, str | type[ActorCritic]] = {}


def register_model(name: str, target: str | type[ActorCritic]) -> None:
    """Make a model known by a name, for ``model: {type: <name>}``.

    A name that is known already is given its new meaning. Whoever loads a policy of that type registers it before.

    Args:
        name: any but those of warpdrive's own models.
        target: the class, or where it is as ``package.module:Class`` or ``path/to/file.py:Class``.

    Raises:
        DefinitionError: the name is that of a model of warpdrive's own, or looks like a place.
    """
    from warpdrive.training.sections import MODEL_CONFIGS

    if name in MODEL_CONFIGS or ":" in name:
        ours = ", ".join(MODEL_CONFIGS)
        raise DefinitionError(f"register_model: found the name '{name}', expected one without ':', and none of {ours}")
    _registered[name] = target


def registered_models() -> list[str]:
    """Return the names that :func:`register_model` was given."""
    return sorted(_registered)


def model_class(name: str) -> type[ActorCritic]:
    """Return the class behind a registered name, ``package.module:Class`` or ``path/to/file.py:Class``.

    Raises :class:`DefinitionError` that says what is wrong with the name, with the nearest that exists.
    """
    from warpdrive.training.models.base import ActorCritic
    from warpdrive.training.sections import MODEL_CONFIGS

    target = _registered.get(name, name)
    if isinstance(target, str) and ":" not in target:
        known = [*MODEL_CONFIGS, *registered_models()]
        raise DefinitionError(
            f"found {shown(name)}, expected one of {', '.join(known)}, a name given to wd.register_model, "
            f"package.module:Class or path/to/file.py:Class.{nearest(name, known)}"
        )
    found: Any = load_attribute(target, f"model {shown(name, 200)}") if isinstance(target, str) else target
    if not (isinstance(found, type) and issubclass(found, ActorCritic)):
        raise DefinitionError(f"{shown(name, 200)} is {shown(found)}, expected a subclass of warpdrive.ActorCritic")
    return found
