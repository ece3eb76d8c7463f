"""Run configurations of WarpDrive 2 and 1, converted to those of this package."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from warpdrive import registry
from warpdrive.environment import Environment
from warpdrive.errors import ConfigError, WarpDriveError, nearest, shown
from warpdrive.interop.warpdrive2.defaults import DEFAULTS
from warpdrive.training.config.values import is_number

_ENVIRONMENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "tag_gridworld_with_reset_pool": ("tag_gridworld", {"random_starts": True}),
    "single_pendulum": ("pendulum", {"gravity": 9.81}),
    **{f"single_{name}": (name, {}) for name in ("acrobot", "cartpole", "mountain_car", "continuous_mountain_car")},
}
"""Registered environments and their parameters, by the names of run configurations that are called otherwise."""

_TRAINER, _POLICY, _SAVING = (
    {key: value for key, value in DEFAULTS[section].items() if key not in ("env_backend", "model", "tag")}
    for section in ("trainer", "policy", "saving")
)
_FORMER_NAMES = {"print_metrics_freq": "metrics_log_freq", "save_model_params_freq": "model_params_save_freq"}
_KEYS = {
    "trainer": {*_TRAINER, "seed", "env_backend", "n_step", "evaluator", "neg_pos_env_ratio"},
    "policy": {*_POLICY, "model"},
    "model": {"type", "fc_dims", "model_ckpt_filepath", "init_method", "output_w", "output_b", "actor", "critic"},
    "saving": {*_SAVING, *_FORMER_NAMES, "tag", "use_wandb"},
    "sampler": {"params"},
    "params": {"damping", "stddev", "scale"},
}
_WITHOUT_LIMIT = 1e9
_ALGORITHMS = {"A2C": "a2c", "PPO": "ppo", "DDPG": "ddpg"}
_MARKS = {
    "trainer": {"num_episodes", "num_gpus"},
    "policy": {"vf_loss_coeff", "entropy_coeff", "clip_grad_norm", "normalize_return", "clip_param"},
    "model": {"fc_dims", "model_ckpt_filepath"},
    "saving": {"metrics_log_freq", "model_params_save_freq", "basedir", *_FORMER_NAMES},
}


def is_of_warpdrive2(raw: Any) -> bool:
    """Return True for the contents of a run configuration of WarpDrive 2 or 1.

    These name no environment in their section ``env``, and have keys that this package does not have.
    """
    if not isinstance(raw, Mapping) or (isinstance(raw.get("env"), Mapping) and "name" in raw["env"]):
        return False
    policies = [section for section in _mapping(raw.get("policy")).values() if isinstance(section, Mapping)]
    sections = {
        "trainer": [_mapping(raw.get("trainer"))],
        "policy": policies,
        "model": [_mapping(section.get("model")) for section in policies],
        "saving": [_mapping(raw.get("saving"))],
    }
    marked = any(keys & section.keys() for name, keys in _MARKS.items() for section in sections[name])
    return marked or any(str(section.get("algorithm")) in _ALGORITHMS for section in policies)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def convert(raw: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Convert a run configuration of WarpDrive 2 or 1.

    Args:
        raw: The sections ``name``, ``env``, ``trainer``, ``policy``, ``sampler`` and ``saving``.

    Returns:
        The sections of a run configuration of this package, and notes on what changed in meaning or was dropped.

    Raises:
        ConfigError: If a section is no mapping, or a number is none.
    """
    conversion = _Conversion(raw)
    return conversion.result(), conversion.notes


class _Conversion:
    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw, self.notes = raw, list[str]()
        self.given = {name: self._section(raw, name) for name in ("env", "trainer", "policy", "sampler", "saving")}
        for key in raw.keys() - self.given.keys() - {"name"}:
            self._note(key, f"unknown, dropped.{nearest(key, [*self.given, 'name'])}")
        self.trainer = {**_TRAINER, **self._known("trainer", self.given["trainer"])}
        saving = self._known("saving", self.given["saving"])
        self.saving = {**_SAVING, **{_FORMER_NAMES.get(key, key): value for key, value in saving.items()}}
        self.sampler = self._known("params", self._section(self.given["sampler"], "params"), "sampler.params")
        self._known("sampler", self.given["sampler"])
        self.env, self.pool_size = self._environment()
        self.made = self._make()

    def _note(self, key: str, text: str) -> None:
        self.notes.append(f"{key}: {text}")

    def _section(self, parent: Mapping[str, Any], name: str) -> dict[str, Any]:
        section = parent.get(name)
        if section is not None and not isinstance(section, Mapping):
            raise ConfigError(f"{name}: found {shown(section)}, expected a section with keys")
        return dict(section or {})

    def _known(self, kind: str, section: Mapping[str, Any], place: str | None = None) -> dict[str, Any]:
        known = _KEYS[kind]
        for key in section.keys() - known:
            self._note(f"{place or kind}.{key}", f"unknown, dropped.{nearest(key, known)}")
        return {key: value for key, value in section.items() if key in known}

    @staticmethod
    def _number(key: str, value: Any) -> float:
        if not is_number(value):
            raise ConfigError(f"{key}: found {shown(value)}, expected a finite number")
        return float(value)

    def result(self) -> dict[str, Any]:
        trainer, policies = self._trainer(), self._policies()
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", str(self.raw.get("name") or self.env["name"]))
        return {"name": name, "env": self.env, "trainer": trainer, "policy": policies, "saving": self._saving()}

    def _environment(self) -> tuple[dict[str, Any], Any]:
        given, name = self.given["env"], str(self.raw.get("name", ""))
        registered, parameters = _ENVIRONMENTS.get(name, (name, {}))
        pool = given.pop("reset_pool_size", None)
        if "random_starts" in parameters:
            pool = 5
            self._note("env", "start positions are drawn from all of the grid; the pool has 5 of them, as before")
        if registered in registry.registered_names():
            if registered != name:
                self._note("name", f"the environment '{name}' is '{registered}' here")
        else:
            hint = nearest(name, [*registry.registered_names(), *_ENVIRONMENTS])
            self._note(
                "name",
                f"no environment '{name}' is registered.{hint} For one of WarpDrive 2's form, replace env.name by "
                "warpdrive2: package.module:Class and kernels: package.module (docs/guides/warpdrive2.md)",
            )
        given.pop("env_backend", None)
        return {"name": registered, **parameters, **given}, pool

    def _make(self) -> Environment | None:
        """Return the environment, and drop parameters that it does not have; None if it cannot be made."""
        name, *parameters = self.env
        if self.env[name] not in registry.registered_names():
            return None
        known = inspect.signature(registry.environment_class(self.env[name])).parameters
        for key in parameters:
            if key not in known:
                value = self.env.pop(key)
                if key != "seed":
                    self._note(
                        f"env.{key}",
                        f"{shown(value)} dropped: the environment has no such parameter.{nearest(key, known)}",
                    )
        try:
            return registry.make(self.env[name], **{key: value for key, value in self.env.items() if key != name})
        except WarpDriveError as error:
            self._note("env", str(error))
        return None

    def _trainer(self) -> dict[str, Any]:
        trainer, given = self.trainer, self.given["env"]
        default = 1 if self.made is None else self.made.episode_length
        length = self._number("env.episode_length", given.get("episode_length", default))
        envs, size, episodes = (
            self._number(f"trainer.{key}", trainer[key]) for key in ("num_envs", "train_batch_size", "num_episodes")
        )
        for key, number in (("num_envs", envs), ("train_batch_size", size)):
            if number < 1:
                raise ConfigError(f"trainer.{key}: found {number:g}, expected at least 1")
        steps = max(1, int(size // envs))
        batch = int(steps * envs)
        if batch != size:
            self._note("trainer.train_batch_size", f"{size:g} is {batch} here, {steps} steps of {envs:g} replicas")
        updates = max(1, int(episodes * length // size))
        self._note(
            "trainer.num_episodes",
            f"{episodes:g} episodes of {length:g} steps are total_steps: {updates * batch} here, environment steps of "
            f"all replicas together ({updates} updates, as before)",
        )
        converted: dict[str, Any] = {"num_envs": int(envs), "train_batch_size": batch, "total_steps": updates * batch}
        seed = trainer.get("seed", given.get("seed"))
        if seed is not None:
            converted["seed"] = seed
        else:
            self._note("trainer.seed", "the default is 0 here, and was the time: runs repeat")
        if "env_backend" in trainer:
            self._note("trainer.env_backend", f"'{trainer['env_backend']}' is left out: the best available one is used")
        if self.pool_size is not None:
            converted["reset_pool_size"] = max(1, int(self._number("env.reset_pool_size", self.pool_size)))
        if trainer.get("evaluator"):
            converted["evaluation"] = {"every": self._frequency("metrics_log_freq"), "deterministic": True}
        if "neg_pos_env_ratio" in trainer:
            self._note("trainer.neg_pos_env_ratio", "dropped: updates use all replicas")
        if trainer["num_gpus"] != 1:
            count = trainer["num_gpus"]
            self._note("trainer.num_gpus", f"dropped: start {count} processes with warpdrive train <yaml> -n {count}")
        return converted

    def _policies(self) -> dict[str, Any]:
        converted = {tag: self._policy(tag, self._section(self.given["policy"], tag)) for tag in self.given["policy"]}
        tags = list(converted) if self.made is None else list(self.made.policy_tags)
        if set(tags) != set(converted) and len(converted) == 1:
            ((tag, section),) = converted.items()
            if len(tags) > 1:
                self._note(f"policy.{tag}", f"one policy for all agents is a policy for each of {', '.join(tags)} here")
            else:
                self._note(f"policy.{tag}", f"the policy is called '{tags[0]}' here")
            return {tag: deepcopy(section) for tag in tags}
        return converted

    def _policy(self, tag: str, given: dict[str, Any]) -> dict[str, Any]:
        place = f"policy.{tag}"
        known = {**_POLICY, **self._known("policy", given, place)}
        model = self._section(known, "model")
        name = str(known["algorithm"]).upper()
        if name not in _ALGORITHMS:
            raise ConfigError(f"{place}.algorithm: found {shown(known['algorithm'])}, expected A2C, PPO or DDPG")
        if name == "DDPG" and not isinstance(known["lr"], Mapping):
            known["lr"] = {"actor": known["lr"]}
        section = {"algorithm": _ALGORITHMS[name], "to_train": known["to_train"], "gamma": known["gamma"]}
        section["max_grad_norm"] = known["max_grad_norm"] if known["clip_grad_norm"] else _WITHOUT_LIMIT
        special = self._ddpg if name == "DDPG" else self._actor_critic
        section |= special(place, name, known)
        section["model"] = self._model(f"{place}.model", name, model)
        return section

    def _actor_critic(self, place: str, name: str, known: Mapping[str, Any]) -> dict[str, Any]:
        section = {
            "lr": known["lr"],
            "gae_lambda": 1.0,
            "value_coef": _scaled(known["vf_loss_coeff"], 2.0),
            "entropy_coef": known["entropy_coeff"],
            "normalize_advantage": known["normalize_advantage"],
            "normalize_returns": known["normalize_return"],
        }
        self._note(f"{place}.vf_loss_coeff", "doubled in value_coef: the value loss is half the squared error here")
        self._note(
            f"{place}.gae_lambda",
            "1.0, returns without GAE as before; a rollout that ends within an episode is bootstrapped with the value "
            "of the next observation, and was with that of the last one",
        )
        for key, ours in (("normalize_advantage", "normalize_advantage"), ("normalize_return", "normalize_returns")):
            if known[key]:
                over = "the batch" if key == "normalize_advantage" else "running statistics"
                self._note(f"{place}.{key}", f"{ours} normalises by {over} here, and did by each step's agents")
        if name == "PPO":
            section |= {"clip": known["clip_param"], "epochs": 1, "minibatches": 1}
            self._note(f"{place}.algorithm", "PPO takes one gradient step per batch, as before; the default here is 16")
        return section

    def _ddpg(self, place: str, name: str, known: Mapping[str, Any]) -> dict[str, Any]:
        rates, agents = known["lr"], 1 if self.made is None else self.made.num_agents
        size = self._number("trainer.train_batch_size", self.trainer["train_batch_size"])
        if "critic" in rates and rates["critic"] != rates.get("actor"):
            self._note(f"{place}.lr.critic", f"{rates['critic']} dropped: actor and critic share lr here")
        for key in ("vf_loss_coeff", "entropy_coeff", "clip_param"):
            if known[key] != _POLICY[key]:
                self._note(f"{place}.{key}", "dropped: DDPG does not have it")
        self._note(
            f"{place}.algorithm",
            "DDPG samples its batches from a replay buffer here, and trained on the last batch of steps; batch_size is "
            "as large as that batch was",
        )
        section = {
            "lr": rates.get("actor", _POLICY["lr"]),
            "tau": known["tau"],
            "n_step": self.trainer.get("n_step", 1),
            "batch_size": int(size),
            "buffer_size": max(100_000, int(size * agents)),
            "learning_starts": 0,
        }
        if self.sampler:
            scale = self.sampler.get("scale", 1.0)
            stddev = self.sampler.get("stddev", 0.2)
            std = _scaled(stddev, scale) if isinstance(scale, int | float) else stddev
            section["noise"] = {"type": "ornstein_uhlenbeck", "decay": self.sampler.get("damping", 0.15), "std": std}
            self._note("sampler.params.stddev", "noise.std is in units of half the range of an action here")
            if std is stddev and scale != 1.0:
                self._note("sampler.params.scale", "dropped: a schedule of the scale; set one of noise.std instead")
        return section

    def _model(self, place: str, name: str, given: dict[str, Any]) -> dict[str, Any]:
        known = self._known("model", given, place)
        files = known.get("model_ckpt_filepath")
        if any(files.values() if isinstance(files, Mapping) else [files]):
            self._note(f"{place}.model_ckpt_filepath", "dropped: parameters of WarpDrive 2 cannot be loaded here")
        actor, critic = self._section(known, "actor"), self._section(known, "critic")
        both = {**known, **self._known("model", actor, f"{place}.actor")}
        if critic and critic.get("fc_dims", both.get("fc_dims")) != both.get("fc_dims"):
            self._note(
                f"{place}.critic.fc_dims", f"{critic['fc_dims']} dropped: actor and critic have equal layers here"
            )
        kind = both.get("type", "fully_connected")
        section: dict[str, Any] = {"type": "fully_connected", "hidden": both.get("fc_dims", [64, 64])}
        if kind not in ("fully_connected", "fully_connected_actor"):
            self._note(
                f"{place}.type", f"'{kind}' is unknown: fully_connected is used; set package.module:Class instead"
            )
        section["activation"] = "relu"
        section["initialization"] = "xavier" if both.get("init_method") == "xavier" else "uniform"
        if name != "DDPG":
            section["trunk"] = "shared"
        elif {"output_w", "output_b"} & both.keys():
            self._note(f"{place}.output_w", "dropped: actions cover the bounds of the action space")
        return section

    def _frequency(self, key: str) -> int:
        return max(1, int(self._number(f"saving.{key}", self.saving[key])))

    def _saving(self) -> dict[str, Any]:
        saving = self.saving
        folder = "/".join(str(part) for part in (saving["basedir"], saving.get("tag")) if part)
        self._note("saving.basedir", f"runs are in {folder}/<name>/<date-time>, whose name is the configuration's")
        section: dict[str, Any] = {
            "folder": folder,
            "log_every": self._frequency("metrics_log_freq"),
            "checkpoint_every": self._frequency("model_params_save_freq"),
        }
        if saving.get("use_wandb"):
            section["wandb"] = {"project": str(saving["name"])}
        return section


def _scaled(schedule: Any, factor: float) -> Any:
    """Return a number or the values of a schedule times a factor."""
    if isinstance(schedule, list):
        pairs = all(isinstance(point, list) and len(point) == 2 for point in schedule)
        return [[time, _scaled(value, factor)] for time, value in schedule] if pairs else schedule
    return factor * schedule if isinstance(schedule, int | float) and not isinstance(schedule, bool) else schedule
