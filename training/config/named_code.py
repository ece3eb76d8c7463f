"""Code named by run configurations: environments, models, update functions and opponents.

Training from one's own YAML file executes the code that it names, as a script does. A run from others is data:
of the code that its configuration names, only what was registered, installed, or used by this user before is executed,
unless the user trusts the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from warpdrive import registry
from warpdrive.errors import TrustError
from warpdrive.training.models.registry import registered_models
from warpdrive.used_code import file_of, is_installed, is_known, was_known

_FUNCTION = "function"
_ID, _KERNELS = "id", "kernels"  # of environments of other libraries


def expanded_env(env: Any) -> Any:
    """Return the section ``env`` in full: ``cartpole`` and ``{gymnasium: CartPole-v1}`` are short forms."""
    if isinstance(env, str):
        return {"name": env}
    named = [library for library in registry.HOST_LIBRARIES if isinstance(env, Mapping) and library in env]
    for library in named:
        others = {key: value for key, value in env.items() if key not in (*named, "name", "id")}
        env = {"name": library, "id": env[library], **others}
    return env


def named_code(raw: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield the code references of a configuration: the dotted key, the section, and the key within it.

    Args:
        raw: The configuration, with ``env`` in full.
    """
    policies = raw.get("policy")
    env = raw.get("env")
    places: list[tuple[str, Any, str]] = [("env", env, "name")]
    if isinstance(env, Mapping) and env.get("name") in registry.HOST_LIBRARIES:
        places += [("env", env, _ID), ("env", env, _KERNELS)]
    for tag, policy in policies.items() if isinstance(policies, Mapping) else ():
        if isinstance(policy, Mapping):
            places += [(f"policy.{tag}.model", policy.get("model"), "type"), (f"policy.{tag}", policy, _FUNCTION)]
    for key, section, name in places:
        if isinstance(section, dict) and isinstance(section.get(name), str):
            yield f"{key}.{name}", section, name


def check_named_code(raw: Mapping[str, Any], where: str | Path) -> None:
    """Check that all code named by the configuration of a run is known here, before any of it is executed.

    Args:
        raw: The configuration, or its sections ``env`` and ``policy``, complete: parameters name code, too.
        where: The file, for messages.

    Raises:
        TrustError: If a reference is not known: reports the first one.
    """
    for key, section, name in named_code({**raw, "env": expanded_env(raw.get("env"))}):
        target, is_function = section[name], name == _FUNCTION
        if name in (_ID, _KERNELS):
            target, is_function = _of_library(str(section["name"]), target)
        if not _is_trusted(target, is_function):
            file = file_of(target)
            place = target if file is None or target.startswith(str(file)) else f"{target} ({file})"
            why = (
                "has changed since you used it"
                if was_known(target)
                else "is neither installed nor previously used by you"
            )
            raise TrustError(
                f"{where}: {key}: found {place}, which would be executed but {why}; if you trust it, pass --trust "
                "(in Python trust=True)"
            )


def _of_library(library: str, target: str) -> tuple[str, bool]:
    """Return the code that a key of another library's environment names, and True if it takes any arguments."""
    if library == "pettingzoo" and ":" not in target and "/" not in target:
        return f"{target}:parallel_env", False
    if library == "warpdrive2" and ":" not in target:
        return f"{target}:{_KERNELS}", True
    return target, library in ("pettingzoo", "warpdrive2") and ":" in target


def _is_trusted(target: str, is_function: bool) -> bool:
    """Return True if code named by a run may be executed. Functions take any arguments, so installed is not enough."""
    if is_function:
        return is_known(target)
    known = {*registry.registered_names(), *registered_models()}
    return ":" not in target or target in known or is_known(target) or is_installed(target)
