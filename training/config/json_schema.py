"""JSON Schema (draft 2020-12) of run configurations, for editors and completion."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import typing
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError

from warpdrive import registry
from warpdrive.backends.loading import backend_names
from warpdrive.environment import Environment
from warpdrive.errors import WarpDriveError
from warpdrive.training.config import run_config, schema
from warpdrive.training.config.section import Section
from warpdrive.training.rollout.exploration import NOISE_SECTIONS

Schema = dict[str, Any]
_DEFAULT = "fully_connected"
"""Type of a model that names none."""
_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}


def json_schema(environments: Sequence[str] = ()) -> Schema:
    """Return the JSON Schema of run configurations.

    Args:
        environments: Environments as ``path/to/file.py:Class`` or ``package.module:Class``, whose parameters are
            described besides those of the registered ones.

    Returns:
        The schema, with descriptions, defaults, bounds and choices.

    Raises:
        DefinitionError: If there is no such environment.
    """
    found = schema.RunConfig.model_json_schema()
    definitions = found["$defs"]
    for section in (*(getattr(run_config, name) for name in run_config.__all__), *NOISE_SECTIONS):
        name = section.__name__
        described = found if name == "RunConfig" else definitions.get(name, {"properties": {}})
        for key, text in _descriptions(section).items():
            described["properties"].get(key, {}).setdefault("description", text)
    found["required"].remove("name")  # by default that of the environment
    trainer = definitions["TrainerConfig"]["properties"]
    trainer["env_backend"]["enum"] = list(backend_names())
    trainer["use_cuda_graph"] |= {"enum": ["auto", "on", "off", True, False], "type": ["string", "boolean"]}  # YAML 1.1
    _describe_environments(definitions["EnvironmentConfig"], environments)
    types: Schema = {}
    edited = _without_titles(_edited(found, definitions, types))
    edited["$defs"] |= types
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Run configuration of WarpDrive",
        **edited,
    }


def _edited(node: Any, definitions: Schema, types: Schema) -> Any:
    """Return a schema with bounds named as JSON Schema names them, and unions of sections as cases by their tag.

    Args:
        node: Schema, or a part of one.
        definitions: Sections, by name.
        types: Collects the named types (in ``$comment``), which are replaced by references.
    """
    if isinstance(node, list):
        return [_edited(part, definitions, types) for part in node]
    if not isinstance(node, dict):
        return node
    is_section = isinstance(node.get("default"), dict)  # whose keys have defaults
    kept = {key: part for key, part in node.items() if key != "discriminator" and not (is_section and key == "default")}
    node = {_BOUNDS.get(key, key): _edited(part, definitions, types) for key, part in kept.items()}
    if "$comment" in node:
        own = {key: node.pop(key) for key in ("title", "description", "default") if key in node}
        name = node.pop("$comment")
        types[name] = node
        node = {**own, "$ref": f"#/$defs/{name}"}
    if "oneOf" in node:
        node |= _cases(node.pop("oneOf"), definitions)
    return node


def _cases(choices: Sequence[Schema], definitions: Schema) -> Schema:
    """Return a union of sections as cases by ``algorithm`` or ``type``: editors then report errors in one of them."""
    sections = [definitions[choice["$ref"].rpartition("/")[2]]["properties"] for choice in choices]
    tag = "algorithm" if "algorithm" in sections[0] else "type"
    known = [section[tag]["const"] for section in sections if "const" in section[tag]]
    cases = []
    for choice, section in zip(choices, sections, strict=True):
        value = section[tag].get("const")
        condition = {"properties": {tag: {"const": value} if value else {"not": {"enum": known}}}}
        cases.append({"if": condition if value == _DEFAULT else {**condition, "required": [tag]}, "then": choice})
    values = {"enum": known} if len(known) == len(sections) else {"anyOf": [{"enum": known}, {"type": "string"}]}
    required = [] if _DEFAULT in known else [tag]
    return {"type": "object", "properties": {tag: values}, "required": required, "allOf": cases}


def _descriptions(section: type[Section]) -> dict[str, str]:
    """Return the docstrings of a section's keys, by name."""
    found: dict[str, str] = {}
    for each in reversed(section.__mro__):
        if issubclass(each, Section):
            body = ast.parse(textwrap.dedent(inspect.getsource(each))).body[0]
            assert isinstance(body, ast.ClassDef)
            for field, text in zip(body.body, body.body[1:], strict=False):
                if (
                    isinstance(field, ast.AnnAssign)
                    and isinstance(text, ast.Expr)
                    and isinstance(text.value, ast.Constant)
                ):
                    found[ast.unparse(field.target)] = _plain(str(text.value.value))
    return found


def _plain(text: str) -> str:
    """Return a docstring's text in one line, with Markdown's code spans."""
    return re.sub(r":\w+:", "", " ".join(text.split()).replace("``", "`"))


def _describe_environments(section: Schema, others: Sequence[str]) -> None:
    """Add the parameters of the known environments to the schema of the section ``env``, as cases by their name."""
    known = [*registry.registered_names(), *registry.HOST_LIBRARIES]
    section["properties"]["name"] |= {
        "description": "Registered name, `package.module:Class` or `path/to/file.py:Class`.",
        "anyOf": [{"enum": [*known, *others]}, {"type": "string"}],
    }
    section["allOf"] = []
    for name in [*known, *others]:
        try:
            parameters = _parameters(registry.environment_class(name))
        except WarpDriveError:
            if name in others:
                raise
            continue  # a broken plug-in does not hide the others
        parameters["properties"] = dict.fromkeys(section["properties"], True) | parameters["properties"]
        condition = {"properties": {"name": {"const": name}}, "required": ["name"]}
        section["allOf"].append({"if": condition, "then": parameters})
    del section["required"]
    section["anyOf"] = [{"required": [key]} for key in ("name", *registry.HOST_LIBRARIES)]
    for library in registry.HOST_LIBRARIES:  # {gymnasium: CartPole-v1}, or {name: gymnasium, id: CartPole-v1}
        found = _parameters(registry.environment_class(library))["properties"]
        section["properties"][library] = {"type": "string", "description": found.pop("id")["description"]}
        section["allOf"].append({"if": {"required": [library]}, "then": {"properties": found}})


def _parameters(definition: type[Environment]) -> Schema:
    """Return the schema of the parameters of an environment's constructor."""
    texts = _arguments_of(inspect.getdoc(definition) or "")
    hints = _hints(definition.__init__)
    found: Schema = {"properties": {}, "required": [], "additionalProperties": False}
    for name, parameter in inspect.signature(definition).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            found["additionalProperties"] = True
            continue
        property_: Schema = _schema_of(hints.get(name, Any))
        if name in texts:
            property_["description"] = texts[name]
        if parameter.default is parameter.empty:
            found["required"].append(name)
        elif isinstance(parameter.default, bool | int | float | str | None):
            property_["default"] = parameter.default
        found["properties"][name] = property_
    return found


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except (NameError, TypeError):  # an annotation that only a type checker can resolve
        return {}


def _schema_of(annotation: Any) -> Schema:
    try:
        return TypeAdapter[Any](annotation).json_schema()
    except PydanticUserError:  # a type that YAML cannot spell
        return {}


def _arguments_of(docstring: str) -> dict[str, str]:
    """Return the descriptions in the ``Args:`` of a docstring in Google style, by name."""
    _, _, block = docstring.partition("Args:\n")
    block = textwrap.dedent(re.split(r"\n(?=\S)", block)[0])
    return {
        name: _plain(text) for name, text in re.findall(r"^(\w+)(?: \(.*?\))?: (.*(?:\n .*)*)", block, re.MULTILINE)
    }


def _without_titles(node: Any) -> Any:
    """Return a schema without the titles that pydantic makes of the names."""
    if isinstance(node, list):
        return [_without_titles(part) for part in node]
    if not isinstance(node, dict):
        return node
    is_schema = not isinstance(node.get("title"), dict)
    return {key: _without_titles(part) for key, part in node.items() if not (is_schema and key == "title")}
