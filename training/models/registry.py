"""Registry of user-defined models, by name or location."""

from __future__ import annotations

from typing import Any

from warpdrive.errors import DefinitionError, nearest, shown
from warpdrive.importing import load_attribute
from warpdrive.training.models.base import ActorCritic
from warpdrive.training.models.options import MODEL_CONFIGS, CustomModelConfig, RecurrentConfig
from warpdrive.training.models.recurrent import RecurrentActorCritic

_registered: dict[str, str | type[ActorCritic]] = {}


def register_model(name: str, target: str | type[ActorCritic]) -> None:
    """Register a model under a name, for ``model: {type: <name>}``.

    A registered name can be redefined. Register the model before loading a policy of that type.

    ```python
    wd.register_model("two_layers", TwoLayers)  # model: {type: two_layers, width: 64}
    ```

    Args:
        name: Any name but those of built-in models.
        target: The class, or its location as ``package.module:Class`` or ``path/to/file.py:Class``.

    Raises:
        DefinitionError: If the name is that of a built-in model, or looks like a location.
    """
    if name in MODEL_CONFIGS or ":" in name:
        ours = ", ".join(MODEL_CONFIGS)
        raise DefinitionError(f"register_model: found the name '{name}', expected one without ':', and none of {ours}")
    _registered[name] = target


def registered_models() -> list[str]:
    """Return the names registered with :func:`register_model`."""
    return sorted(_registered)


def model_class(name: str) -> type[ActorCritic]:
    """Return the class of a registered name, ``package.module:Class`` or ``path/to/file.py:Class``.

    Raises:
        DefinitionError: If there is no such class; suggests the nearest existing name.
    """
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


def is_recurrent(model: object) -> bool:
    """Return True if ``model`` is the section of a recurrent model, built-in or of a user."""
    if isinstance(model, CustomModelConfig):
        return issubclass(model_class(model.type), RecurrentActorCritic)
    return isinstance(model, RecurrentConfig)
