"""Validation of run configurations: collects all problems, described in terms of the configuration's keys."""

from __future__ import annotations

import re
import typing
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from gymnasium import spaces
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from warpdrive import registry
from warpdrive.adapted import original_of
from warpdrive.environment import Environment, check_environment, spaces_by_tag
from warpdrive.errors import ConfigError, DefinitionError, WarpDriveError, nearest, shown
from warpdrive.training.algorithms.base import LearningConfig, UpdateSize
from warpdrive.training.algorithms.on_policy import OnPolicyConfig
from warpdrive.training.config import schema
from warpdrive.training.config.adapt import adapted, names_of_agents
from warpdrive.training.config.aliases import OTHER_ALGORITHMS, OTHER_NAMES
from warpdrive.training.config.messages import Problem, described, explanation, unknown_key, without_follow_ups
from warpdrive.training.config.section import Section
from warpdrive.training.config.signature import parameter_problems
from warpdrive.training.models.convolutions import num_features
from warpdrive.training.models.flatten import Flatten
from warpdrive.training.models.options import (
    MODEL_CONFIGS,
    ActionsConfig,
    ConvolutionsConfig,
    CustomModelConfig,
    FullyConnectedConfig,
    PerceptronConfig,
)
from warpdrive.training.models.registry import model_class
from warpdrive.training.rollout.exploration import NOISE_SECTIONS

_NOISES: dict[str, type[Section]] = {
    typing.get_args(section.model_fields["type"].annotation)[0]: section for section in NOISE_SECTIONS
}
"""Sections of exploration noise, by the value of ``type``."""


def problems_of(raw: Mapping[str, Any], environment: Environment | None = None) -> list[Problem]:
    """Return the problems of the sections, of the environment's parameters, and of the policy tags."""
    section_problems: list[Problem] = []
    try:
        schema.RunConfig.model_validate(raw)
    except ValidationError as error:
        section_problems = without_follow_ups([_problem(details, raw) for details in error.errors()])
    env_problems, made = environment_problems(raw.get("env"))
    env = environment or made
    policies = raw.get("policy")
    if env is not None and isinstance(policies, Mapping):
        try:
            env = adapted(env, policies)
        except DefinitionError as error:
            key, _, text = str(error).partition(": ")
            return [(f"policy.{key}", text)]
    if isinstance(policies, Mapping):
        found_so_far = [key for key, _ in section_problems]
        for tag, settings in policies.items():
            if not any(f"{key}.".startswith(f"policy.{tag}.model.") for key in found_so_far):
                section_problems += _custom_model_problems(f"policy.{tag}.model", settings)
    tag_problems: list[Problem] = []
    if env is not None and isinstance(policies, Mapping):
        tag_problems = _tag_problems(env, policies)
        unknown = [key + "." for key, _ in tag_problems]
        section_problems = [p for p in section_problems if not (p[0] + ".").startswith(tuple(unknown))]
        if not section_problems and not tag_problems:
            tag_problems = policy_problems(schema.RunConfig.model_validate(raw), env)
    return section_problems + env_problems + tag_problems


def separate_policies(raw: dict[str, Any], environment: Environment | None) -> None:
    """Replace each section with ``parameter_sharing: false`` by one for each agent of its policy tag, in place.

    Args:
        raw: Run configuration, which may be invalid.
        environment: Environment; None: created from the section ``env``.
    """
    policies = raw.get("policy")
    sections = policies.items() if isinstance(policies, Mapping) else ()
    separate = [tag for tag, section in sections if isinstance(section, Mapping) and _is_separate(section)]
    env = (environment or environment_problems(raw.get("env"))[1]) if separate else None
    if env is None:
        return
    agents = original_of(env).policy_tags
    raw["policy"] = {
        name: section
        for tag, section in sections
        for name in (names_of_agents(tag, len(agents[tag])) if tag in separate and tag in agents else [tag])
    }


def _is_separate(section: Mapping[str, Any]) -> bool:
    return section.get("parameter_sharing") is False


def policy_problems(run: schema.RunConfig, env: Environment) -> list[Problem]:
    """Return problems of the policies with respect to the environment, or to the samples of an update."""
    found = []
    action_spaces = spaces_by_tag(env, env.action_space)
    observation_spaces = spaces_by_tag(env, env.observation_space)
    wanted, known = run.best_metric, schema.evaluation_metrics(run.policy)
    if wanted not in known:
        text = f"found {described(wanted)}, expected one of {', '.join(known)}.{nearest(wanted, known)}"
        found.append(("saving.best_metric", text))
    for tag, settings in run.policy.items():
        if isinstance(settings, LearningConfig):
            size = UpdateSize(run.trainer.num_envs, run.trainer.rollout_length, len(env.policy_tags[tag]))
            found += [(f"policy.{tag}.{key}", text) for key, text in settings.problems(size, env)]
        found += [(f"policy.{tag}.model.{key}", text) for key, text in _action_problems(settings, action_spaces[tag])]
        found += [(f"policy.{tag}.{key}", text) for key, text in _model_problems(settings, observation_spaces[tag])]
        if isinstance(settings, schema.SelfPlayConfig):
            found += _self_play_problems(tag, settings, run, env)
        if isinstance(settings, schema.FunctionConfig):
            try:
                settings.loaded()
            except DefinitionError as error:
                found.append((f"policy.{tag}.function", str(error)))
        if isinstance(settings, OnPolicyConfig) and settings.function is not None:
            found += _own_algorithm_problems(f"policy.{tag}", settings)
        if not _is_for(settings, action_spaces[tag]):
            known = [name for name, other in schema.POLICY_CONFIGS.items() if _is_for(other, action_spaces[tag])]
            text = f"found '{settings.algorithm}', expected an algorithm for actions in {action_spaces[tag]}: "
            found.append((f"policy.{tag}.algorithm", text + ", ".join(known)))
    return found


def _action_problems(settings: object, space: spaces.Space[Any]) -> list[Problem]:
    """Return problems of a model's options for actions in a Box with respect to the action space."""
    model = getattr(settings, "model", None)
    if not isinstance(model, ActionsConfig):
        return []
    is_box = isinstance(space, spaces.Box)
    of_box = ("squash_actions", "initial_log_std", "state_dependent_std")
    given = [] if is_box else [name for name in of_box if getattr(model, name, False)]
    found = [
        (name, f"found {described(getattr(model, name))} for the action space {space}, which is not a Box")
        for name in given
    ]
    if model.squash_actions and isinstance(space, spaces.Box) and not space.is_bounded():
        found.append(("squash_actions", f"found true, expected actions in a bounded Box, but they are in {space}"))
    return found


def _model_problems(settings: object, space: spaces.Space[Any]) -> list[Problem]:
    """Return the problem of a model's options with respect to the observation space."""
    model = getattr(settings, "model", None)
    try:
        if isinstance(model, ConvolutionsConfig):
            num_features(space, model)
        if isinstance(model, PerceptronConfig):
            Flatten(space, model.scale_observations)
    except DefinitionError as error:
        key, _, text = str(error).partition(": ")
        return [(key, text)]
    return []


def _self_play_problems(
    tag: str, settings: schema.SelfPlayConfig, run: schema.RunConfig, env: Environment
) -> list[Problem]:
    learning = [name for name, other in run.policy.items() if isinstance(other, LearningConfig)]
    if settings.of not in learning:
        known = ", ".join(learning) or "there is none"
        hint = nearest(settings.of, learning)
        text = f"found '{settings.of}', expected a policy tag whose algorithm learns: {known}.{hint}"
        return [(f"policy.{tag}.of", text)]
    found = []
    for what, given in (("observation", env.observation_space), ("action", env.action_space)):
        spaces_of = spaces_by_tag(env, given)
        own, other = spaces_of[tag], spaces_of[settings.of]
        if own != other:
            text = (
                f"the {what} space of '{settings.of}' is {other}, and that of '{tag}' is {own}: expected equal spaces"
            )
            found.append((f"policy.{tag}.of", text))
    if settings.at_once > run.trainer.num_envs:
        text = f"found {settings.at_once}, expected at most trainer.num_envs ({run.trainer.num_envs})"
        found.append((f"policy.{tag}.at_once", text))
    return found


def _is_for(settings: object, space: spaces.Space[Any]) -> bool:
    """Return True if the algorithm of a policy's section supports an action space."""
    wanted = getattr(settings, "actions", "any")
    if wanted == "Discrete":
        return isinstance(space, spaces.Discrete)
    if wanted == "bounded Box":
        return isinstance(space, spaces.Box) and space.is_bounded()
    return True


def _problem(details: ErrorDetails, raw: Mapping[str, Any]) -> Problem:
    path = [str(part) for part in details["loc"]]
    kind, value = details["type"], details["input"]
    if path[0] == "policy" and len(path) > 2:
        del path[2]  # pydantic inserts the algorithm as the tag of the union
        if path[2:3] == ["model"] and path[3:4] and path[3] in (*MODEL_CONFIGS, "custom"):
            del path[3]  # and here the type of the model
        if path[2:3] == ["noise"] and path[3:4] and path[3] in _NOISES:
            del path[3]  # or of the noise
    if path[0] == "policy" and kind in ("union_tag_invalid", "union_tag_not_found"):
        if path[2:] == ["noise"]:
            return _choice_problem([*path, "type"], value, _NOISES)
        return _choice_problem([*path, "algorithm"], value, schema.POLICY_CONFIGS)
    key = ".".join(path)
    if kind == "extra_forbidden":
        return key, _unknown_key(path, raw)
    return key, explanation(details)


def _choice_problem(path: list[str], value: object, known: Iterable[str]) -> Problem:
    found = value.get(path[-1]) if isinstance(value, Mapping) else None
    text = "missing" if found is None else f"found {described(found)}"
    settings = OTHER_ALGORITHMS.get(re.sub("[- _]", "", str(found).lower()))
    hint = f" {shown(found)} is {settings}." if settings else nearest(str(found), known)
    return ".".join(path), f"{text}, expected one of {', '.join(known)}.{hint}"


def _section_at(path: list[str], raw: Mapping[str, Any]) -> type[Section]:
    if path[0:1] == ["policy"] and len(path) >= 2:
        of_policy = schema.POLICY_CONFIGS[raw["policy"][path[1]]["algorithm"]]
        if path[2:] == ["noise"]:
            return _NOISES[raw["policy"][path[1]]["noise"]["type"]]
        if path[2:] != ["model"]:
            return of_policy
        assert issubclass(of_policy, LearningConfig)
        known = of_policy.model_sections
        return known.get(str(raw["policy"][path[1]]["model"].get("type")), known["fully_connected"])
    section: type[Section] = schema.RunConfig
    for part in path:
        annotation = section.model_fields[part].annotation
        annotation = next((kind for kind in typing.get_args(annotation) if kind is not type(None)), annotation)
        assert isinstance(annotation, type) and issubclass(annotation, Section)
        section = annotation
    return section


def _unknown_key(path: list[str], raw: Mapping[str, Any]) -> str:
    key, section = path[-1], _section_at(path[:-1], raw)
    owners = [name for name, other in schema.POLICY_CONFIGS.items() if key in other.model_fields]
    if len(path) == 3 and path[0] == "policy" and owners:
        algorithm = raw["policy"][path[1]]["algorithm"]
        return f"unknown key for the algorithm '{algorithm}' ('{key}' belongs to {', '.join(owners)})"
    homes: dict[str, list[type[Section]]] = {
        "trainer": [schema.TrainerConfig],
        "saving": [schema.SavingConfig],
        "model": [PerceptronConfig, *MODEL_CONFIGS.values()],
    }
    belongs = "".join(
        f" It belongs to the section '{name}'."
        for name, home in homes.items()
        if section not in home and any(key in other.model_fields for other in home)
    )
    return unknown_key(key, section.model_fields, belongs or _hint_of_other_section(key, section))


def _hint_of_other_section(key: str, section: type[Section]) -> str:
    """Return ``" Did you mean 'x.y'?"`` for a key, or another library's name of it, of another section; or ``""``."""
    ours = OTHER_NAMES.get(key.lower(), key)
    if ours in section.model_fields:
        return ""
    for place, home in _HOMES.items():
        if ours in home.model_fields:
            return f" Did you mean '{place}.{ours}'?"
    return ""


_HOMES: dict[str, type[Section]] = {
    "trainer": schema.TrainerConfig,
    "trainer.evaluation": schema.EvaluationConfig,
    "saving": schema.SavingConfig,
    "policy.<tag>": schema.POLICY_CONFIGS["ppo"],
    "policy.<tag>.model": FullyConnectedConfig,
}


def environment_problems(section: object) -> tuple[list[Problem], Environment | None]:
    """Return the problems of the section ``env``, and the environment, if it can be created."""
    if not isinstance(section, Mapping) or not isinstance(section.get("name"), str):
        return [], None  # the check of the sections has said so
    parameters = {key: value for key, value in section.items() if key != "name"}
    try:
        definition = registry.environment_class(section["name"])
    except WarpDriveError as error:
        return [("env.name", str(error))], None
    problems = parameter_problems("env", definition, parameters, prefix="env.")
    wrong = {key.removeprefix("env.") for key, _ in problems}
    try:
        # with the parameters that are right, the policy tags can still be checked
        made = registry.made(definition, {key: value for key, value in parameters.items() if key not in wrong})
        check_environment(made)
        return problems, made
    except DefinitionError as error:
        text = str(error)
        first_word = text.split(maxsplit=1)[0]
        return problems or [(f"env.{first_word}" if first_word in parameters else "env", text)], None


def _custom_model_problems(section: str, settings: object) -> list[Problem]:
    """Return problems of a policy's user-defined model, if it has one."""
    model = settings.get("model") if isinstance(settings, Mapping) else None
    algorithm = schema.POLICY_CONFIGS.get(str(settings.get("algorithm"))) if isinstance(settings, Mapping) else None
    if (
        not isinstance(model, Mapping)
        or algorithm is None
        or not issubclass(algorithm, LearningConfig)
        or algorithm.model_sections is not MODEL_CONFIGS
    ):
        return []
    name = model.get("type", "fully_connected")
    if not isinstance(name, str) or name in MODEL_CONFIGS:
        return []
    try:
        definition = model_class(name)
    except WarpDriveError as error:
        return [(f"{section}.type", str(error))]
    parameters = {key: value for key, value in model.items() if key not in CustomModelConfig.model_fields}
    return parameter_problems(section, definition, parameters, given=2, prefix=f"{section}.")


def _own_algorithm_problems(section: str, settings: OnPolicyConfig) -> list[Problem]:
    """Return problems of a user-defined class that replaces an algorithm's."""
    from warpdrive.training.algorithms import replaceable_class  # imports the models, not needed otherwise

    try:
        settings.derived_from(replaceable_class(settings))
    except DefinitionError as error:
        return [(f"{section}.function", str(error))]
    return []


def _tag_problems(env: Environment, policies: Mapping[str, Any]) -> list[Problem]:
    tags = ", ".join(f"'{tag}'" for tag in env.policy_tags)
    available = f"the policy tags of the environment are {tags}"
    unknown = [
        (f"policy.{tag}", f"unknown policy tag, {available}.{nearest(tag, env.policy_tags)}")
        for tag in policies
        if tag not in env.policy_tags
    ]
    missing = [(f"policy.{tag}", f"missing, {available}") for tag in env.policy_tags if tag not in policies]
    return unknown + missing


def check_random(random: Collection[str], tags: Collection[str]) -> None:
    """Raise ``ConfigError`` if ``random``, whose agents are to act at random, is no collection of policy tags."""
    if isinstance(random, str):
        raise ConfigError(f"found random = '{random}', expected a list of policy tags: ['{random}']")
    if not isinstance(random, Collection):
        raise ConfigError(f"found random = {shown(random)}, expected a list of policy tags")
    for tag in random:
        if not isinstance(tag, str) or tag not in tags:
            hint = nearest(str(tag), tags)
            raise ConfigError(f"unknown policy tag {shown(tag)}, expected one of {', '.join(tags)}.{hint}")
