"""Page of the configuration keys, from the JSON Schema of run configurations."""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reference_docs.explained import EXPLAINED
from reference_docs.markdown import code, link, page_of, table
from warpdrive.training.algorithms import ALGORITHMS
from warpdrive.training.algorithms.base import ReturnsConfig
from warpdrive.training.config.aliases import OTHER_NAMES
from warpdrive.training.config.json_schema import json_schema
from warpdrive.training.config.schema import POLICY_CONFIGS
from warpdrive.training.config.section import Section
from warpdrive.training.models.options import (
    ACTION_VALUE_CONFIGS,
    MODEL_CONFIGS,
    TEAM_VALUE_CONFIGS,
    GaussianConfig,
    PerceptronConfig,
)

Schema = Mapping[str, Any]

INTRODUCTION = """\
# Configuration keys

This page lists every key of a run configuration with its type, default and effect. A run configuration is a YAML file
that describes a whole training run: the environment, the amount of training, an algorithm with its hyperparameters for
each policy, and the outputs. `warpdrive train` takes such a file, or the name of a
[shipped one](../../training/run_configs); in Python, [`wd.RunConfig`](api/configuration.md) takes the same sections.

```yaml
env:
  name: tag_gridworld        # the environment, and parameters of its constructor
  num_taggers: 4
trainer:
  num_envs: 500              # replicas
  train_batch_size: 16000    # environment steps per update: 500 replicas x 32 steps
  total_steps: 1000000
policy:
  tagger: {algorithm: ppo, lr: 2e-3, minibatches: 8}
  runner: {algorithm: ppo, lr: 2e-3}
saving:
  checkpoint_every: 25
```

Keys without default are required. All others may be left out; the `config.yaml` of a run folder lists every key with
the value it had. Unknown keys, values of the wrong type and values out of range are errors, all of which are reported
at once, each with the nearest key or value that would work. Numbers may be written as `1e6`. `null` is Python's None.

## Overriding keys

On the command line, a key is its path with dots, and its value is YAML:

```bash
warpdrive train tag_gridworld trainer.num_envs=1000 policy.tagger.lr=1e-3
warpdrive train tag_gridworld "policy.tagger.model={type: gru, units: 32}" saving.wandb.project=tag
warpdrive train --resume runs/tag_gridworld trainer.total_steps=2e6
```

In Python: `wd.RunConfig.load("tag_gridworld", ["trainer.num_envs=1000"])`.

A run that is resumed keeps its environment, `trainer.num_envs`, `trainer.train_batch_size`, `trainer.seed`,
`trainer.reset_pool_size`, and the algorithms and models of its policies. Other keys may change.

## Schedules

Keys of the type *schedule* take a number, or a value that changes with the environment steps of the run:

| value | meaning |
| --- | --- |
| `1e-3` | constant |
| `[[0, 1e-3], [1e6, 1e-4]]` | linear between pairs of environment steps and values, constant outside |
| `{schedule: linear, start: 1e-3, end: 0, steps: 1e6}` | linear from `start` to `end` within `steps`, then constant |
| `{schedule: cosine, start: 1e-3, end: 0}` | half a cosine wave; without `steps`, over the whole run |

The range of such a key applies to all values of the schedule. Where a number must be greater than 0, a schedule may
reach 0.
"""

OTHER_LIBRARIES = """\
## Names in other libraries

Names of Stable-Baselines3, RLlib, CleanRL, EPyMARL, rsl_rl, skrl, Spinning Up and Tianshou are not accepted, but the
error names the key: `policy.agent.learning_rate: unknown key, expected one of [...]. Did you mean 'lr'?`
"""

COUNT = 2**63


def page() -> str:
    """Return the page in Markdown."""
    schema = json_schema()
    sections = {"RunConfig": schema, **schema["$defs"]}
    return page_of(_parts(sections))


def documented_keys() -> set[str]:
    """Return the keys of the schema as ``Section.key``, all of which the page documents."""
    schema = json_schema()
    found = {"RunConfig": schema, **schema["$defs"]}
    return {f"{name}.{key}" for name, section in found.items() for key in section.get("properties", {})}


def _parts(sections: Mapping[str, Schema]) -> Iterator[str]:
    tables = _Tables(sections)
    yield INTRODUCTION
    yield "## Top level"
    top = sections["RunConfig"]["properties"]
    name = {**top["name"], "default text": "name of the environment"}
    yield tables.rows({**sections["RunConfig"], "properties": {**top, "name": name}}, "run")
    yield "## `env`"
    yield (
        "Further keys are the parameters of the environment's constructor, which its "
        "[page](../environments/index.md) or `warpdrive envs <name>` lists. "
        "Environments of Gymnasium, PettingZoo and EnvPool are named as in "
        "[host environments](../guides/host_environments.md): `env: {gymnasium: CartPole-v1}`."
    )
    names = sections["EnvironmentConfig"]["properties"]
    name = {**names["name"], "anyOf": [{"type": "string"}], "default text": "required, or one of the keys below"}
    others = {
        key: {**names[key], "default text": "none", "description": f"Environment of {of}. {names[key]['description']}"}
        for key, of in _LIBRARIES.items()
    }
    yield tables.rows({"properties": {"name": name, **others}}, "env")
    yield "## `trainer`"
    yield "All sizes count environment steps, that is, steps of single replicas."
    yield tables.of("TrainerConfig", "trainer")
    yield "## `trainer.evaluation`"
    yield tables.of("EvaluationConfig", "trainer.evaluation")
    yield "## `policy`"
    yield (
        "`policy` has a section for each policy tag of the environment: `policy.tagger.lr`. Its keys depend on "
        f"`algorithm`. The keys of the first table are shared by {_listed(_names(ALGORITHMS))}. `custom` lacks "
        "`returns_after_leaving`."
    )
    shared = {"algorithm": _choices(POLICY_CONFIGS), **_shared(sections)}
    yield tables.rows({"properties": shared, "required": ["algorithm"]}, "policy")
    for name, section in POLICY_CONFIGS.items():
        if issubclass(section, tuple(ALGORITHMS)):
            yield f"### `algorithm: {name}`"
            yield _described(sections, section, name)
            yield tables.of(section.__name__, name, without=shared)
    yield "### `noise`"
    yield "The exploration noise of `ddpg` and `td3`, in units of half the range of an action component."
    yield tables.rows({"properties": {"type": _choices(("gaussian", "ornstein_uhlenbeck"), "gaussian")}}, "noise")
    for name in ("GaussianNoiseConfig", "OrnsteinUhlenbeckConfig"):
        kind = sections[name]["properties"]["type"]["const"]
        yield f"`type: {kind}`: {_text(sections[name]['description'])}"
        yield tables.of(name, f"noise.{kind}", without=("type",))
    yield "## `model`"
    yield from _models(tables)
    yield "## Policies that are not trained"
    for name, section in POLICY_CONFIGS.items():
        if not issubclass(section, tuple(ALGORITHMS)):
            yield f"### `algorithm: {name}`"
            yield _described(sections, section, name)
            if len(section.model_fields) > 1:
                yield tables.of(section.__name__, name, without=("algorithm",))
    yield "## `saving`"
    yield tables.of("SavingConfig", "saving")
    for name in ("wandb", "trackio", "mlflow"):
        yield f"## `saving.{name}`"
        yield _text(sections[f"{name.capitalize()}Config"]["description"])
        yield tables.of(f"{name.capitalize()}Config", f"saving.{name}")
    yield OTHER_LIBRARIES
    yield _other_names()


def _other_names() -> str:
    groups: dict[str, list[str]] = {}
    for other, ours in OTHER_NAMES.items():
        groups.setdefault(ours, []).append(code(other))
    return table(["key", "other names"], [(code(ours), ", ".join(others)) for ours, others in sorted(groups.items())])


def _models(tables: _Tables) -> Iterator[str]:
    sections = tables.sections
    off_policy = _listed(_with_models(ACTION_VALUE_CONFIGS))
    teams = " and ".join(code(name) for name in _with_models(TEAM_VALUE_CONFIGS))
    yield (
        "`policy.<tag>.model` is the neural network of a policy. [Models](../guides/models.md) explains the types. "
        f"{off_policy} take the types `fully_connected` and `convolutional`, without the keys of actions in a Box and "
        f"`trunk`; {teams} take these types and recurrent ones, likewise."
    )
    kinds = {"type": {**_choices((*MODEL_CONFIGS, "custom"), "fully_connected"), "description": _TYPE_OF_MODEL}}
    shared = {name: sections["FullyConnectedConfig"]["properties"][name] for name in PerceptronConfig.model_fields}
    shared = {name: _with_defaults(sections, name, node) for name, node in shared.items() if name != "type"}
    yield tables.rows({"properties": {**kinds, **shared}}, "model")
    yield "### Actions in a Box"
    yield "Keys of all types for `reinforce`, `a2c`, `ppo` and `custom`. Custom models have the first two."
    of_boxes = {name: sections["FullyConnectedConfig"]["properties"][name] for name in GaussianConfig.model_fields}
    yield tables.rows({"properties": of_boxes}, "model")
    for name, section in MODEL_CONFIGS.items():
        yield f"### `type: {name}`"
        yield _text(sections[section.__name__]["description"])
        yield tables.of(section.__name__, f"model.{name}", without=(*shared, *of_boxes, "type"))
    yield "### Custom models"
    yield _text(sections["CustomModelConfig"]["description"])
    yield tables.of("CustomModelConfig", "model.custom", without=of_boxes)


_LIBRARIES = {"gymnasium": "Gymnasium", "pettingzoo": "PettingZoo", "envpool": "EnvPool", "warpdrive2": "WarpDrive 2"}
_TYPE_OF_MODEL = "Architecture. Any other value is a [custom model](#custom-models)."


def _with_models(sections: Mapping[str, type[Section]]) -> list[str]:
    """Return the algorithms whose models have these sections."""
    return [name for name, section in POLICY_CONFIGS.items() if getattr(section, "model_sections", None) is sections]


def _with_defaults(sections: Mapping[str, Schema], key: str, node: Schema) -> Schema:
    """Return the schema of a model's key with its default by type, where types differ."""
    groups: dict[str, list[str]] = {}
    for name, section in MODEL_CONFIGS.items():
        groups.setdefault(_default(sections[section.__name__]["properties"][key]), []).append(code(name))
    if len(groups) == 1:
        return node
    texts = [f"{default} ({', '.join(names)})" for default, names in groups.items()]
    return {**node, "default text": "; ".join(texts)}


def _shared(sections: Mapping[str, Schema]) -> dict[str, Schema]:
    """Return the schemas of the keys that the learning algorithms share."""
    properties = sections["PPOConfig"]["properties"]
    return {name: properties[name] for name in ReturnsConfig.model_fields}


def _choices(values: Sequence[str] | Mapping[str, Any], default: str | None = None) -> Schema:
    given = {} if default is None else {"default": default}
    return {"enum": list(values), "description": "Kind of section, on which its other keys depend.", **given}


def _described(sections: Mapping[str, Schema], section: type[Section], name: str) -> str:
    return f"{_text(sections[section.__name__]['description'])}{_link(name)}"


def _names(sections: Sequence[type[Section]]) -> list[str]:
    return [name for name, section in POLICY_CONFIGS.items() if section in sections]


def _listed(names: Sequence[str]) -> str:
    *first, last = map(code, names)
    return f"{', '.join(first)} and {last}"


class _Tables:
    """Tables of the keys of sections.

    Args:
        sections: schemas of the sections, by name, and of the types with a name of their own.
    """

    def __init__(self, sections: Mapping[str, Schema]) -> None:
        self.sections = sections

    def of(self, name: str, place: str, without: Sequence[str] | Mapping[str, Any] = ()) -> str:
        """Return the table of a section's keys.

        Args:
            name: name of the section's class.
            place: prefix of the anchors.
            without: keys to leave out.
        """
        section = self.sections[name]
        kept = {key: node for key, node in section["properties"].items() if key not in without}
        return self.rows({**section, "properties": kept}, place)

    def rows(self, section: Schema, place: str) -> str:
        """Return the table of the keys of a schema, with the anchor ``place.key`` for each key."""
        required, rows = section.get("required", ()), []
        for key, node in section["properties"].items():
            name = f"{place}.{key}"
            effect = _text(node["description"]) + _link(name)
            default = "required" if key in required else _default(node)
            rows.append((f'<a id="{name}"></a>{code(key)}', self.type_of(node, key), default, effect))
        return table(["key", "type", "default", "effect"], rows)

    def type_of(self, node: Schema, key: str) -> str:
        """Return the type of a value in words, with its range or choices."""
        if key == "name" and "pattern" in node:
            return "string of up to 100 letters, digits, `_`, `-` and `.`"
        if "$ref" in node:
            name = node["$ref"].rpartition("/")[2]
            if name.endswith("Config"):
                return _SECTIONS[name]
            return self.type_of(self.sections[name], key)
        if key in ("policy", "model", "noise"):
            return _SECTIONS[key]
        if "anyOf" in node:
            if any(choice.get("properties", {}).get("schedule") for choice in node["anyOf"]):
                is_optional = {"type": "null"} in node["anyOf"]
                return f"[schedule](#schedules) of {_number(node['anyOf'][0], 'numbers')}" + (
                    is_optional * ", or `null`"
                )
            return ", or ".join(self.type_of(choice, key) for choice in node["anyOf"])
        if "enum" in node:
            return ", ".join(code(value) for value in node["enum"] if isinstance(value, str))
        if node["type"] == "array":
            return f"list of {_plural(self.type_of(node['items'], key))}"
        if "pattern" in node:
            is_device = "cuda" in node["pattern"]
            return (
                "`cpu`, `cuda` or `cuda:<number>`" if is_device else "`package.module:name` or `path/to/file.py:name`"
            )
        if node["type"] in ("integer", "number"):
            return _number(node, node["type"])
        return "`null`" if node["type"] == "null" else str(node["type"])


_SECTIONS = {
    "EnvironmentConfig": "[section](#env)",
    "TrainerConfig": "[section](#trainer)",
    "EvaluationConfig": "[section](#trainerevaluation)",
    "SavingConfig": "[section](#saving)",
    "WandbConfig": "[section](#savingwandb)",
    "TrackioConfig": "[section](#savingtrackio)",
    "MlflowConfig": "[section](#savingmlflow)",
    "policy": "[sections](#policy)",
    "model": "[section](#model)",
    "noise": "[section](#noise)",
}


def _number(node: Schema, kind: str) -> str:
    """Return the name of a type of numbers with its range."""
    least, most = node.get("minimum"), node.get("maximum", math.inf)
    if node.get("exclusiveMaximum", COUNT) < COUNT:
        most = min(most, node["exclusiveMaximum"] - 1)
    if "exclusiveMinimum" in node:
        above = f"{kind} > {node['exclusiveMinimum']:g}"
        return above if math.isinf(most) else f"{above} and ≤ {most:g}"
    if least is None:
        return kind
    return f"{kind} ≥ {least:g}" if math.isinf(most) else f"{kind} from {least:g} to {most:.15g}"


def _plural(kind: str) -> str:
    return re.sub(r"^(integer|string|number)", r"\1s", kind)


def _default(node: Schema) -> str:
    if "default text" in node:
        return str(node["default text"])
    if "default" not in node:
        return "defaults of its keys"
    return code(json.dumps(node["default"]).strip('"'))


def _text(description: str) -> str:
    """Return a docstring with the values of YAML, as one line."""
    words = {"None": "`null`", "True": "`true`", "False": "`false`"}
    return re.sub(
        r"\b(None|True|False)\b", lambda found: words[found[0]], " ".join(textwrap.dedent(description).split())
    )


def _link(name: str) -> str:
    """Return the link to the page that explains a key; empty if there is none."""
    if name not in EXPLAINED:
        return ""
    return f" See {link(EXPLAINED[name])}."
