"""Base class of the sections of a run configuration."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import or_
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from typing_extensions import dataclass_transform

from warpdrive.errors import ConfigError
from warpdrive.training.config.messages import Problem, explanation, unknown_key, without_follow_ups

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)


@dataclass_transform(kw_only_default=True, field_specifiers=(Field,))
class _SectionType(ModelMetaclass):
    """Metaclass of the sections: calls with invalid values raise ``ConfigError``, unlike ``model_validate``."""

    if not TYPE_CHECKING:  # type checkers derive the constructor from the fields

        def __call__(self, **values: Any) -> Any:
            try:
                return super().__call__(**values)
            except ValidationError as error:
                problems = [f"{self.__name__}: {key}: {text}" for key, text in _problems(self, error)]
            first = [] if len(problems) == 1 else [f"{len(problems)} problems:"]
            raise ConfigError("\n  ".join([*first, *problems]))


class Section(BaseModel, metaclass=_SectionType):
    """Base class of configuration sections: immutable; unknown keys, wrong types and NaN are errors."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, ser_json_inf_nan="constants"
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **settings: Any) -> None:
        """Set a signature with plain types, for ``help`` and notebooks."""
        if "__init__" not in vars(cls):
            cls.__signature__ = inspect.Signature(
                [
                    inspect.Parameter(
                        name,
                        inspect.Parameter.KEYWORD_ONLY,
                        default=inspect.Parameter.empty if field.is_required() else field.default,
                        annotation=_plain_type(field.annotation),
                    )
                    for name, field in cls.model_fields.items()
                ]
            )


def _plain_type(annotation: Any) -> Any:
    """Return a type without the metadata of ``Annotated``."""
    kind, parts = get_origin(annotation), get_args(annotation)
    if kind is Annotated:
        return _plain_type(parts[0])
    if kind in (Union, UnionType):
        return reduce(or_, map(_plain_type, parts))
    return kind[tuple(map(_plain_type, parts))] if kind in (list, dict) else annotation


def _problems(section: type[Section], error: ValidationError) -> list[Problem]:
    found = []
    for details in error.errors():
        *place, name = map(str, details["loc"])
        keys, owner = _owner(section, place)
        text = unknown_key(name, owner.model_fields) if details["type"] == "extra_forbidden" else explanation(details)
        found.append((".".join([*keys, name]), text))
    return without_follow_ups(found)


def _owner(section: type[Section], place: Sequence[str]) -> tuple[list[str], type[Section]]:
    """Return the keys of a place without the tags that pydantic adds for unions, and the section there."""
    keys, candidates = [], [section]
    for part in place:
        field = candidates[0].model_fields.get(part)
        if field is not None:
            keys.append(part)
            candidates = list(_sections_in(field.annotation)) or candidates
        else:
            candidates = [each for each in candidates if part in get_args(_tag_of(each))] or candidates
    return keys, candidates[0]


def _tag_of(section: type[Section]) -> Any:
    fields = section.model_fields
    return next((fields[key].annotation for key in ("type", "algorithm") if key in fields), None)


def _sections_in(annotation: Any) -> Iterator[type[Section]]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation
    for part in get_args(annotation):
        yield from _sections_in(part)
