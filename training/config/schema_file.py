"""Reading of ``run_config.schema.json``, the JSON Schema of run configurations, without pydantic."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_FILE = Path(__file__).parent.parent / "run_configs" / "run_config.schema.json"


def shipped_schema() -> dict[str, Any]:
    """Return the schema, with the registered environments that are shipped."""
    schema: dict[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))
    return schema


def defaults(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults of the keys of a run configuration, by dotted keys, of those keys that have one."""
    schema = shipped_schema()
    return dict(_defaults(schema, schema, config))


def _defaults(
    schema: Mapping[str, Any], node: Mapping[str, Any], values: Mapping[str, Any], place: str = ""
) -> Iterator[tuple[str, Any]]:
    known = properties_of(schema, node, values)
    for key, value in values.items():
        if key in known and isinstance(value, Mapping) and is_section(schema, known[key]):
            yield from _defaults(schema, known[key], value, f"{place}{key}.")
        elif "default" in known.get(key, {}):
            yield f"{place}{key}", known[key]["default"]


def section_of(value: object) -> dict[str, Any]:
    """Return a value that is a section; an empty one otherwise."""
    return value if isinstance(value, dict) else {}


def resolved(schema: Mapping[str, Any], node: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a part of the schema without references, and of an optional section the section."""
    if "$ref" in node:
        return resolved(schema, schema["$defs"][node["$ref"].rpartition("/")[2]])
    sections = [part for part in node.get("anyOf", []) if "$ref" in part]
    return resolved(schema, sections[0]) if len(sections) == 1 else node


def is_section(schema: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    """Return True if a part of the schema describes a section, rather than a value."""
    return resolved(schema, node).get("type") == "object"


def properties_of(schema: Mapping[str, Any], node: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a section with their schemas, of the cases that ``values`` selects."""
    node = resolved(schema, node)
    found = dict(node.get("properties", {}))
    if isinstance(node.get("additionalProperties"), dict):  # policies, by tag
        found |= dict.fromkeys(values, node["additionalProperties"])
    for case in node.get("allOf", []):
        if _holds(case["if"], values):
            found |= {
                key: part for key, part in properties_of(schema, case["then"], values).items() if key not in found
            }
    return found


def _holds(condition: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    found = {key: wanted for key, wanted in condition.get("properties", {}).items() if key in values}
    return all(key in values for key in condition.get("required", [])) and all(
        values[key] == wanted["const"] if "const" in wanted else values[key] not in wanted["not"]["enum"]
        for key, wanted in found.items()
    )
