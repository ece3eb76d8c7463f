"""The code that a run configuration names: its environment, models, update functions and opponents.

Whoever trains from a YAML file of their own runs what it names, as with a script. A run that somebody else made is
data: of what its configuration names, only what was registered, what is installed, and what this user has used before
is run, unless they say that they trust it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from warpdrive import registry
from warpdrive.errors import TrustError
from warpdrive.training.model_registry import registered_models
from warpdrive.used_code import file_of, is_installed, is_known, was_known

_FUNCTION = "function"


def named_code(raw: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield where a configuration names code: the key, the section that has it, and the key's name in there."""
    policies = raw.get("policy")
    places: list[tuple[str, Any, str]] = [("env", raw.get("env"), "name")]
    for tag, policy in policies.items() if isinstance(policies, Mapping) else ():
        if isinstance(policy, Mapping):
            places += [(f"policy.{tag}.model", policy.get("model"), "type"), (f"policy.{tag}", policy, _FUNCTION)]
    for key, section, name in places:
        if isinstance(section, dict) and isinstance(section.get(name), str):
            yield f"{key}.{name}", section, name


def check_named_code(raw: Mapping[str, Any], where: str | Path) -> None:
    """Check that all code which the configuration of a run names is known here, before any of it is run.

    Raises:
        TrustError: the first that is not.
    """
    for key, section, name in named_code(raw):
        target = section[name]
        if not _may_be_run(target, name):
            file = file_of(target)
            place = target if file is None or target.startswith(str(file)) else f"{target} ({file})"
            why = (
                "has changed since you used it" if was_known(target) else "is neither installed nor used by you before"
            )
            raise TrustError(
                f"{where}: {key}: found {place}, which would be run, and {why}; if you trust it, say --trust "
                "(in Python trust=True)"
            )


def _may_be_run(target: str, name: str) -> bool:
    """Return whether code may be run that a run names. Functions take any arguments, so installed is not enough."""
    if name == _FUNCTION:
        return is_known(target)
    known = {*registry.registered_names(), *registered_models()}
    return ":" not in target or target in known or is_known(target) or is_installed(target)
