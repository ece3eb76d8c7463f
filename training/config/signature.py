"""Problems of configuration values with respect to the signature of a user's class or function."""

from __future__ import annotations

import inspect
import json
import math
import typing
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from warpdrive.importing import place_of
from warpdrive.registry import hint_of_parameter
from warpdrive.training.config.messages import MISSING, Problem, described, expectation
from warpdrive.training.config.values import is_number


def parameter_problems(
    key: str, definition: Callable[..., Any], parameters: Mapping[str, Any], given: int = 0, prefix: str = ""
) -> list[Problem]:
    """Return problems of parameters of a class or function, apart from its first ``given`` ones.

    Args:
        key: Key that names the class or function.
        definition: Class or function.
        parameters: Parameters by name.
        given: Number of leading parameters that do not come from the configuration.
        prefix: Prefix of the parameters' keys.

    Returns:
        Problems of ``key``, and of the parameters under ``prefix`` and their names.
    """
    try:
        signature = inspect.signature(definition)
    except ValueError as error:
        return [(key, f"{place_of(definition)} cannot be called: {error}")]
    signature = signature.replace(parameters=list(signature.parameters.values())[given:])
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in signature.parameters.values())
    try:
        hints = typing.get_type_hints(definition.__init__ if inspect.isclass(definition) else definition)
    except (NameError, TypeError):  # an annotation that only a type checker can resolve
        hints = {}
    owner = place_of(definition) if given else definition.__name__
    problems: list[Problem] = []
    for name, value in parameters.items():
        if name not in signature.parameters and not takes_any:
            known = f"expected one of {', '.join(signature.parameters)}." if signature.parameters else "expected none."
            known += hint_of_parameter(definition, name, signature.parameters)
            problems.append((f"{prefix}{name}", f"unknown parameter of {owner}, {known}"))
        elif isinstance(value, float) and math.isnan(value):
            problems.append((f"{prefix}{name}", f"found {described(value)}, expected a number or infinity"))
        elif name in hints:
            problems += _type_problems(f"{prefix}{name}", value, hints[name])
    required = [
        name
        for name, parameter in signature.parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    ]
    problems += [(f"{prefix}{name}", MISSING) for name in required if name not in parameters]
    return problems


def _type_problems(key: str, value: object, annotation: Any) -> list[Problem]:
    if type(value) is int and not is_number(value):
        return [(key, f"found {described(value)}, expected a finite number")]
    try:
        adapter = TypeAdapter[Any](annotation)
    except PydanticUserError:  # a type that YAML cannot spell, such as a NumPy array: the constructor decides
        return []
    try:
        # JSON rather than Python values: types are strict, but lists are valid for tuples
        adapter.validate_json(json.dumps(value, default=str), strict=True)
    except ValidationError as error:
        expected = " or ".join(dict.fromkeys(expectation(details) for details in error.errors()))
        return [(key, f"found {described(value)}, expected {expected}")]
    return []


def takes(function: Callable[..., Any], count: int) -> bool:
    """Return True if a function accepts ``count`` positional arguments."""
    kinds = [parameter.kind for parameter in inspect.signature(function).parameters.values()]
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return inspect.Parameter.VAR_POSITIONAL in kinds or sum(kind in by_position for kind in kinds) >= count
