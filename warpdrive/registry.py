"""Registry of environments.

A name is a registered one, an entry point of the group ``warpdrive.environments`` (as for the built-in environments),
``package.module:Class``, or ``path/to/file.py:Class``. A registered name may be followed by that of a variant, as in
``atari/pong``. Modules in the working directory and beside the file can be imported, as in a script. ``<name>.yaml``
beside the module of a registered environment is its run configuration.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

from warpdrive.environment import Environment
from warpdrive.errors import DefinitionError, UnknownParameterError, nearest, shown
from warpdrive.importing import load_attribute
from warpdrive.offered import at_registration, offered_environments
from warpdrive.user_code import user_code

_registered: dict[str, str | type[Environment]] = {}

HOST_LIBRARIES = {
    "gymnasium": "warpdrive.interop.host.environment:GymnasiumEnvironment",
    "pettingzoo": "warpdrive.interop.host.environment:PettingZooEnvironment",
    "envpool": "warpdrive.interop.host.environment:EnvPoolEnvironment",
    "warpdrive2": "warpdrive.interop.host.environment:WarpDrive2Environment",
}
"""Environments of other libraries, which :class:`warpdrive.HostEnv` steps; each has a parameter ``id``."""


def register(name: str, target: str | type[Environment]) -> None:
    """Register an environment under a name: its class, or the path ``package.module:Class``.

    An existing registration is replaced. Gymnasium's registry gets an id ``warpdrive/<class>-v1``, or
    ``warpdrive/<name>-v1`` if another environment has that id. Packages register environments by entry points of the
    group ``warpdrive.environments`` instead.

    Args:
        name: The name, for ``wd.make``, run configurations and the command line.
        target: A subclass of ``wd.Environment``, or its path, which is imported on first use.

    Raises:
        DefinitionError: If the name is no string, or the target is neither.
    """
    if not isinstance(name, str) or not name:
        raise DefinitionError(f"the name of an environment is {shown(name)}, expected a string")
    is_path = isinstance(target, str) and ":" in target
    if not is_path and not (isinstance(target, type) and issubclass(target, Environment)):
        raise DefinitionError(
            f"environment {shown(name)} is registered with {shown(target)}, expected a subclass of "
            "warpdrive.Environment, or its path package.module:Class or path/to/file.py:Class"
        )
    _registered[name] = target
    class_name = target.rpartition(":")[2] if isinstance(target, str) else getattr(target, "__name__", name)
    for callback in at_registration:
        callback(name, class_name)


def registered_names() -> list[str]:
    """Return the names of all environments that are registered or provided by installed packages.

    Returns:
        The names in alphabetical order.
    """
    return sorted({*_registered, *offered_environments()})


def environment_class(name: str) -> type[Environment]:
    """Return the class for a registered name, ``package.module:Class`` or ``path/to/file.py:Class``.

    The class of ``<registered name>/<variant>`` is what :meth:`warpdrive.Environment.variant` returns.

    Raises :class:`DefinitionError` if there is none, with a suggestion of the nearest name.
    """
    if not isinstance(name, str):
        is_class = isinstance(name, type) and issubclass(name, Environment)
        advice = f": a class is called, {name.__name__}()" if is_class else ""
        raise DefinitionError(f"the name of an environment is {shown(name)}, expected a string{advice}")
    family, slash, variant = name.partition("/")
    if slash and ":" not in name and name not in _registered and family in registered_names():
        return environment_class(family).variant(variant)
    target = _registered.get(name) or offered_environments().get(name) or HOST_LIBRARIES.get(name, name)
    found = target if isinstance(target, type) else _load(target, name)
    if not (isinstance(found, type) and issubclass(found, Environment)):
        raise DefinitionError(f"{shown(name, 200)} is {shown(found)}, expected a subclass of warpdrive.Environment")
    return found


def made(definition: type[Environment], parameters: Mapping[str, Any]) -> Environment:
    """Return an instance of an environment's class.

    Raises :class:`DefinitionError` for any exception in its constructor.
    """
    with user_code(f"environment {definition.__name__} cannot be created"):
        return definition(**parameters)


def make(name: str, /, **config: Any) -> Environment:
    """Create an environment with the given constructor parameters.

    ```python
    env = wd.EnvWrapper(wd.make("tag_gridworld", num_taggers=8), num_envs=1000)
    ```

    Args:
        name: A registered name (also with a variant, ``atari/pong``), ``package.module:Class`` or
            ``path/to/file.py:Class``.
        config: The keyword arguments of the constructor.

    Returns:
        The environment: the description of one replica.

    Raises:
        DefinitionError: If the name or a parameter is unknown (the message has the nearest one), or a value is invalid.
    """
    cls = environment_class(name)
    with user_code(f"environment {cls.__name__} cannot be created"):
        parameters = inspect.signature(cls).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    for key in config:
        if key not in parameters and not takes_any:
            what = f"environment '{name}': unexpected keyword argument '{key}'"
            hint = hint_of_parameter(cls, key, parameters) or f" Its parameters: {', '.join(parameters) or 'none'}."
            raise UnknownParameterError(f"{what}.{hint}")
    return made(cls, config)


_NUMBER_OF_AGENTS = ("num_agents", "n_agents", "players", "num_players", "n_players")
"""Names of the number of agents, of which an environment has one at most."""


def hint_of_parameter(definition: Callable[..., Any], name: str, parameters: Collection[str]) -> str:
    """Return a hint for an unknown parameter that has this name in another package; or "".

    Args:
        definition: The environment's class, or another class or function.
        name: The unknown parameter.
        parameters: The names of the parameters.
    """
    if not (isinstance(definition, type) and issubclass(definition, Environment)):
        return nearest(name, parameters)
    here = {"render_mode": "Pictures are drawn by wd.replay.", **definition.original_names}.get(name)
    if here is None and name in _NUMBER_OF_AGENTS:
        here = next((other for other in _NUMBER_OF_AGENTS if other in parameters), None)
    if here is None:
        return nearest(name, parameters)
    return f" Did you mean '{here}'?" if here in parameters else f" {here}"


def _load(target: str, name: str) -> Any:
    if ":" not in target:
        raise DefinitionError(
            f"unknown environment {shown(name)}.{nearest(name, registered_names())} Known: "
            f"{', '.join(registered_names())}; pass others as package.module:Class or path/to/file.py:Class"
        )
    return load_attribute(target, f"environment {shown(name, 200)}")
