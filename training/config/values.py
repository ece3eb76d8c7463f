"""Types of configuration values: whole numbers, schedules, devices, functions."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import PydanticKnownError

from warpdrive.backends.loading import backend_names
from warpdrive.errors import DefinitionError, shown
from warpdrive.importing import load_attribute
from warpdrive.used_code import note_used


def whole_number(value: object) -> object:
    """Convert a float without a fraction, such as YAML's ``1e6``, to an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def is_number(value: object) -> bool:
    """Return True if a value is a number that is finite as a float (Python integers are unbounded)."""
    return type(value) in (int, float) and -sys.float_info.max <= value <= sys.float_info.max  # type: ignore[operator]


def _representable(value: object) -> object:
    """Raise ``ValueError`` for an integer that is too large for a float."""
    if type(value) is int and not is_number(value):
        raise ValueError("a finite number")
    return value


def backend_name(value: object) -> object:
    """Check that a value is the name of a backend or ``"auto"``."""
    if value not in backend_names():
        names = [repr(name) for name in backend_names()]
        raise PydanticKnownError("literal_error", {"expected": f"{', '.join(names[:-1])} or {names[-1]}"})
    return value


def switch(value: object) -> object:
    """Convert the booleans that YAML reads from bare ``on`` and ``off`` back to these words."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


def _schedule(name: str, least: float, most: float = math.inf, open_below: bool = False, optional: bool = False) -> Any:
    """Return the annotation of a coefficient: a ``schedule.Schedule`` of values from ``least`` to ``most``.

    Args:
        name: Name of the type in the JSON Schema.
        least: Minimum.
        most: Maximum.
        open_below: If True, a schedule may reach the minimum, but a number must be larger.
        optional: If True, None is allowed.
    """
    range_text = f"of at least {least:g}" if most == math.inf else f"from {least:g} to {most:g}"

    def check(given: object) -> object:
        if given is None and optional:
            return None
        if type(given) in (int, float):
            return _check_number(given)
        if isinstance(given, dict):
            _check_curve(given)
            values = [given["start"], given["end"]]
        else:
            values = _check_pairs(given)
        if not all(least <= value <= most for value in values):
            raise ValueError(f"numbers {range_text}")
        return given

    def _check_number(number: Any) -> object:
        if not is_number(number):
            raise ValueError("a finite number")
        if open_below and not number > least:
            raise ValueError(f"a number greater than {least:g}")
        if number < least:
            raise ValueError(f"a number greater than or equal to {least:g} (numbers {range_text})")
        if number > most:
            raise ValueError(f"a number less than or equal to {most:g} (numbers {range_text})")
        return float(number)

    described = WithJsonSchema({"$comment": name, **_schedule_schema(least, most, open_below, optional)})
    return Annotated[float, PlainValidator(check), PlainSerializer(lambda value: value, return_type=Any), described]


def _schedule_schema(least: float, most: float, open_below: bool, optional: bool) -> dict[str, Any]:
    """Return the JSON Schema of a coefficient, see :func:`_schedule`."""
    bounds = {"minimum": least, "maximum": most}
    value = {"type": "number", **{key: bound for key, bound in bounds.items() if math.isfinite(bound)}}
    number = {"type": "number", "exclusiveMinimum": least} if open_below else value
    pair = {"type": "array", "prefixItems": [{"type": "number"}, value], "minItems": 2, "maxItems": 2}
    curve = {
        "type": "object",
        "properties": {
            "schedule": {"enum": ["linear", "cosine"]},
            "start": value,
            "end": value,
            "steps": {"type": "number", "exclusiveMinimum": 0},
        },
        "required": ["schedule", "start", "end"],
        "additionalProperties": False,
    }
    choices = [number, {"type": "array", "items": pair, "minItems": 1}, curve]
    return {"anyOf": [*choices, {"type": "null"}] if optional else choices}


def _check_pairs(given: object) -> list[float]:
    pairs: list[Any] = given if isinstance(given, list) and given else [None]
    for pair in pairs:
        if not (isinstance(pair, list) and len(pair) == 2 and all(map(is_number, pair))):
            raise ValueError(
                "a number, a list of pairs [environment steps, value], or "
                "{schedule: linear, start: ..., end: ..., steps: ...} (or cosine)"
            )
    if not all(one[0] < other[0] for one, other in pairwise(pairs)):
        raise ValueError("strictly increasing environment steps")
    return [pair[1] for pair in pairs]


def _check_curve(given: dict[str, Any]) -> None:
    keys = ("schedule", "start", "end", "steps")
    if not {*keys[:3]} <= set(given) <= {*keys}:
        raise ValueError(f"the keys {', '.join(keys)}, of which only steps is optional (default: trainer.total_steps)")
    if given["schedule"] not in ("linear", "cosine"):
        raise ValueError("schedule: linear or schedule: cosine")
    if not all(is_number(given[key]) for key in keys[1:] if key in given) or given.get("steps", 1) <= 0:
        raise ValueError("numbers for start, end and steps, and steps greater than 0")


def _check_function(given: object) -> object:
    if callable(given) or (isinstance(given, str) and ":" in given):
        return given
    raise ValueError("package.module:function or path/to/file.py:function")


def name_of_function(given: Any) -> str:
    """Return the name of a function: ``package.module:function``."""
    if isinstance(given, str):
        return given
    return f"{given.__module__}:{getattr(given, '__qualname__', type(given).__qualname__)}"


def load_function(given: Any) -> Callable[..., Any]:
    """Return the function of a ``UserFunction``.

    Raises:
        DefinitionError: If there is no such function.
    """
    found = load_attribute(given, f"function {shown(given, 200)}", kind="function") if isinstance(given, str) else given
    if not callable(found):
        raise DefinitionError(f"{shown(given)} is {shown(found)}, expected a function")
    if found is given:
        note_used(name_of_function(given))
    loaded: Callable[..., Any] = found
    return loaded


def _device(name: object) -> object:
    if isinstance(name, str) and re.fullmatch(r"cpu|cuda(:\d+)?", name):
        return name
    raise ValueError("cpu, cuda, or cuda:<number> where there are several GPUs")


Device = Annotated[str, BeforeValidator(_device), WithJsonSchema({"type": "string", "pattern": r"^(cpu|cuda(:\d+)?)$"})]
"""Device name; its presence on this machine is checked when it is used."""
_FUNCTION_SCHEMA = {"type": "string", "pattern": ":"}
UserFunction = Annotated[
    Any,
    PlainValidator(_check_function),
    PlainSerializer(name_of_function, when_used="json"),
    WithJsonSchema(_FUNCTION_SCHEMA),
]
"""``package.module:function`` or ``path/to/file.py:function``; in Python also the function itself."""
OptionalUserFunction = Annotated[
    Any,
    PlainValidator(lambda given: None if given is None else _check_function(given)),
    PlainSerializer(lambda given: None if given is None else name_of_function(given), when_used="json"),
    WithJsonSchema({"anyOf": [_FUNCTION_SCHEMA, {"type": "null"}]}),
]
"""User function, or None."""
Count = Annotated[int, BeforeValidator(whole_number), Field(ge=1, lt=2**63)]
Width = Annotated[int, BeforeValidator(whole_number), Field(ge=1, le=2**20)]
"""Width of a layer, or of a kernel."""


def _are_widths(value: object) -> object:
    """Return a width or a list of them; raise the error of the first that is none, so that it is the only one."""
    for number in value if isinstance(value, list | tuple) else [value]:
        try:
            _WIDTH.validate_python(number, strict=True)
        except ValidationError as error:
            found = error.errors()[0]
            raise PydanticKnownError(found["type"], found.get("ctx")) from None  # type: ignore[arg-type]
    return value


_WIDTH: TypeAdapter[int] = TypeAdapter(Width)
Widths = Annotated[Width | list[Width], BeforeValidator(_are_widths)]
"""Width of all kernels, or of each."""
Positive = Annotated[float, BeforeValidator(_representable), Field(gt=0.0)]
if TYPE_CHECKING:  # what they are once a schedule has been followed: see ``algorithms.common.at``
    FractionSchedule = float
    PositiveSchedule = float
    NonNegativeSchedule = float
    OptionalPositiveSchedule = float | None
    OptionalSchedule = float | None
else:
    FractionSchedule = _schedule("Fraction", 0.0, 1.0)
    PositiveSchedule = _schedule("Positive", 0.0, open_below=True)
    NonNegativeSchedule = _schedule("NonNegative", 0.0)
    OptionalPositiveSchedule = _schedule("OptionalPositive", 0.0, open_below=True, optional=True)
    OptionalSchedule = _schedule("OptionalNumber", -math.inf, optional=True)
