"""Trainers of WarpDrive 2 scripts: one policy per policy tag, trained on batches of all replicas."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from warpdrive.errors import ConfigError
from warpdrive.interop.warpdrive2.controllers import CUDASampler
from warpdrive.interop.warpdrive2.data_feed import Constants
from warpdrive.interop.warpdrive2.defaults import DEFAULTS
from warpdrive.interop.warpdrive2.devices import on_device
from warpdrive.interop.warpdrive2.losses import A2C, DDPG, PPO
from warpdrive.interop.warpdrive2.models import ModelFactory
from warpdrive.interop.warpdrive2.placeholders import AgentIds, checked_tags, create_and_push_data_placeholders
from warpdrive.interop.warpdrive2.ring_buffer import RingBufferManager
from warpdrive.interop.warpdrive2.schedules import ParamScheduler

_FLOATS_AT_ONCE = 2**26  # of hidden layers


def with_defaults(section: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return a section with the default values of the keys that it leaves out, also in nested sections."""
    nested = {key: with_defaults(section[key], value) for key, value in defaults.items() if _both(section, key, value)}
    return {**defaults, **section, **nested}


def _both(section: Mapping[str, Any], key: str, default: Any) -> bool:
    return isinstance(default, Mapping) and isinstance(section.get(key), Mapping) and "actor" not in section[key]


class PerfStats:
    """Times of the parts of training in seconds, of the host. On a GPU only ``total_time`` includes the kernels."""

    def __init__(self) -> None:
        self.iters = self.steps = 0
        self.policy_eval_time = self.action_sample_time = self.env_step_time = 0.0
        self.training_time = self.total_time = 0.0

    def get_perf_stats(self) -> dict[str, float]:
        """Return mean times per iteration in milliseconds, and steps per second."""
        parts = {
            "policy eval": self.policy_eval_time,
            "action sample": self.action_sample_time,
            "env. step": self.env_step_time,
            "training": self.training_time,
            "total": self.total_time,
        }
        times = {f"Mean {name} time per iter (ms)": 1000.0 * spent / self.iters for name, spent in parts.items()}
        return {**times, **{f"Mean steps per sec ({name})": self.steps / spent for name, spent in parts.items()}}


class TrainerBase:
    """Trainer of one policy per policy tag.

    Args:
        env_wrapper: Replicas of an environment, of a kernel backend.
        config: Run configuration with the sections ``trainer``, ``policy`` and ``saving``; missing keys are added.
        policy_tag_to_agent_id_map: Agent ids by policy tag; None: one policy, ``"shared"``.
        create_separate_placeholders_for_each_policy: If True, each policy has arrays of its own.
        obs_dim_corresponding_to_num_agents: Position of the agents in the observations: ``"first"`` or ``"last"``.
        num_devices: Number of processes that train together, members of PyTorch's process group.
        device_id: Rank of this process.
        results_dir: Name of the folder of the results; None: the time.
        verbose: If True, metrics are printed.

    Raises:
        ConfigError: If the configuration is invalid.
    """

    def __init__(
        self,
        env_wrapper: Any = None,
        config: dict[str, Any] | None = None,
        policy_tag_to_agent_id_map: Mapping[str, AgentIds] | None = None,
        create_separate_placeholders_for_each_policy: bool = False,
        obs_dim_corresponding_to_num_agents: str = "first",
        num_devices: int = 1,
        device_id: int = 0,
        results_dir: str | None = None,
        verbose: bool = True,
    ) -> None:
        assert env_wrapper is not None and env_wrapper.env_backend != "cpu", "training requires env_backend='numba'"
        assert config is not None, "training requires a run configuration"
        self.cuda_envs, self.data, self.verbose = env_wrapper, env_wrapper.cuda_data_manager, verbose
        self.num_devices, self.device_id = num_devices, device_id
        self.create_separate_placeholders_for_each_policy = create_separate_placeholders_for_each_policy
        self.obs_dim_corresponding_to_num_agents = obs_dim_corresponding_to_num_agents
        self._read(config)
        self.save_dir = self._make_folder(results_dir)
        self.cuda_envs.reset_all_envs()
        self.policy_tag_to_agent_id_map = checked_tags(policy_tag_to_agent_id_map, self.cuda_envs.obs_at_reset())
        if set(self.policies) != set(self.policy_tag_to_agent_id_map):
            found = f"policies {self.policies}, but agents of {list(self.policy_tag_to_agent_id_map)}"
            raise ConfigError(f"policy: found {found}")
        self.cuda_sample_controller = CUDASampler(self.cuda_envs.cuda_function_manager)
        create_and_push_data_placeholders(
            self.cuda_envs,
            self.cuda_sample_controller,
            self.policy_tag_to_agent_id_map,
            create_separate_placeholders_for_each_policy,
            obs_dim_corresponding_to_num_agents,
            self.training_batch_size_per_env + self.n_step - 1,
        )
        self._set_seeds()
        self.ring_buffer, self.perf_stats = RingBufferManager(), PerfStats()
        self.current_timestep = dict.fromkeys(self.policies, 0)
        self.trainers: dict[str, Any] = {}
        self.models: dict[str, Any] = {}
        self.optimizers: dict[str, Any] = {}
        for policy in self.policies:
            self._initialize(policy)
        self._reset_statistics()
        self.load_model_checkpoint()

    def _read(self, config: dict[str, Any]) -> None:
        config["trainer"] = with_defaults(config.get("trainer") or {}, DEFAULTS["trainer"])
        config["saving"] = with_defaults(config.get("saving") or {}, DEFAULTS["saving"])
        config["policy"] = {
            tag: with_defaults(section or {}, deepcopy(DEFAULTS["policy"]))
            for tag, section in config.get("policy", {"shared": {"to_train": True}}).items()
        }
        self.config, settings = config, config["trainer"]
        self.policies = list(config["policy"])
        self.policies_to_train = [tag for tag in self.policies if config["policy"][tag]["to_train"]]
        self.num_envs, self.num_episodes = self.cuda_envs.n_envs, settings["num_episodes"]
        self.training_batch_size, self.n_step = settings["train_batch_size"], settings.get("n_step", 1)
        self.neg_pos_env_ratio = settings.get("neg_pos_env_ratio", -1)
        self.training_batch_size_per_env = self.training_batch_size // self.num_envs
        if self.training_batch_size_per_env < 1:
            raise ConfigError(
                f"trainer.train_batch_size: found {self.training_batch_size}, expected {self.num_envs} or more, "
                "a step of each replica"
            )
        self.total_steps = self.cuda_envs.episode_length * self.num_episodes
        self.num_iters = int(self.total_steps // self.training_batch_size)
        if self.num_iters < 1:
            raise ConfigError(
                f"trainer.num_episodes: {self.num_episodes} episodes of {self.cuda_envs.episode_length} steps are less "
                f"than a batch of {self.training_batch_size} steps"
            )
        parameters = config.get("sampler", {}).get("params", {})
        self.sample_params_schedules = {name: ParamScheduler(schedule) for name, schedule in parameters.items()}

    def _make_folder(self, results_dir: str | None) -> str:
        saving = self.config["saving"]
        folder = Path(saving["basedir"], saving["name"], saving["tag"], results_dir or f"{time.time():.0f}")
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "run_config.json").open("a", encoding="utf8") as file:
            file.write(json.dumps(self.config, default=str) + "\n")
        return str(folder)

    def _set_seeds(self) -> None:
        seed = int(self.config["trainer"].get("seed", time.time())) + self.device_id
        self.cuda_sample_controller.init_random(seed)
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)
        self.cuda_envs.init_reset_pool(seed + random.randint(1, 10000))

    def _new_model(self, policy: str, section: Mapping[str, Any]) -> nn.Module:
        model: nn.Module = ModelFactory.create(section["type"])(
            env=self.cuda_envs,
            model_config=section,
            policy=policy,
            policy_tag_to_agent_id_map=self.policy_tag_to_agent_id_map,
            create_separate_placeholders_for_each_policy=self.create_separate_placeholders_for_each_policy,
            obs_dim_corresponding_to_num_agents=self.obs_dim_corresponding_to_num_agents,
        )
        if section.get("init_method") == "xavier":
            for layer in model.modules():
                if isinstance(layer, nn.Linear):
                    nn.init.xavier_uniform_(layer.weight)
        for parameter in model.parameters():
            parameter.data = on_device(parameter.data)
            if self.num_devices > 1:
                torch.distributed.broadcast(parameter.data, 0)
        return model

    def _descend(self, policy: str, optimizer: Any, loss: Tensor, lr: float) -> Callable[[], Tensor]:
        """Compute gradients. Returns a function that takes the optimizer step and returns the gradient's norm."""
        section, parameters = self.config["policy"][policy], optimizer.param_groups[0]["params"]
        optimizer.zero_grad()
        loss.backward(inputs=parameters, retain_graph=True)
        if self.num_devices > 1:
            for parameter in parameters:
                if parameter.grad is not None:
                    torch.distributed.all_reduce(parameter.grad)
                    parameter.grad /= self.num_devices
        limit = section["max_grad_norm"] if section["clip_grad_norm"] else float("inf")
        optimizer.param_groups[0]["lr"] = lr

        def step() -> Tensor:
            norm = nn.utils.clip_grad_norm_(parameters, limit)
            optimizer.step()
            return norm

        return step

    def _actor(self, policy: str) -> Any:
        raise NotImplementedError

    def _initialize(self, policy: str) -> None:
        raise NotImplementedError

    def _update(self, policy: str, logged: bool) -> dict[str, float]:
        raise NotImplementedError

    def _checkpointed(self, policy: str) -> dict[str, nn.Module]:
        """Return the models that are saved, by the names of their files."""
        raise NotImplementedError

    def train(self) -> None:
        """Train for ``num_episodes * episode_length / train_batch_size`` iterations."""
        self.cuda_envs.reset_all_envs()
        for iteration in range(self.num_iters):
            self.train_iteration(iteration)

    def train_iteration(self, iteration: int) -> dict[str, dict[str, float]]:
        """Collect a batch, update the policies, log metrics and save checkpoints.

        Returns:
            Metrics by policy tag, ``{}`` between two logged iterations.
        """
        began = time.perf_counter()
        parameters = self._generate_rollout_batch()
        metrics = self._update_model_params(iteration)
        self.perf_stats.total_time += time.perf_counter() - began
        self.perf_stats.iters = iteration + 1
        self.perf_stats.steps = self.perf_stats.iters * self.training_batch_size
        if metrics:
            self._log_metrics({**metrics, **({"sampler": parameters} if parameters else {})})
        self.save_model_checkpoint(iteration)
        return metrics

    def _generate_rollout_batch(self) -> dict[str, float]:
        timestep = self.current_timestep[self.policies[0]]
        parameters = {name: s.get_param_value(timestep) for name, s in self.sample_params_schedules.items()}
        for step in range(self.training_batch_size_per_env):
            self._act(step, **parameters)
            began = time.perf_counter()
            self.cuda_envs.step_all_envs()
            self._record(step)
            self.cuda_envs.reset_only_done_envs()
            self.perf_stats.env_step_time += time.perf_counter() - began
        return parameters

    def _act(self, step: int, **sample_params: Any) -> dict[str, list[Tensor]]:
        """Draw the actions of all agents, and write them to a step of the batch, or to none for -1.

        Returns:
            Outputs of the policies by policy tag, for each component of the actions.
        """
        began = time.perf_counter()
        outputs = self._evaluate_policies(step)
        evaluated = time.perf_counter()
        if self.create_separate_placeholders_for_each_policy:
            drawn = {tag: self._sample(found, f"_{tag}", **sample_params) for tag, found in outputs.items()}
        else:
            actions = self._sample(self._combined(outputs), "", **sample_params)
            drawn = {tag: actions[:, ids] for tag, ids in self.policy_tag_to_agent_id_map.items()}
        if step >= 0:
            for tag, actions in drawn.items():
                self._write(f"{Constants.ACTIONS}_batch_{tag}", step, actions)
        self.perf_stats.policy_eval_time += evaluated - began
        self.perf_stats.action_sample_time += time.perf_counter() - evaluated
        return outputs

    @torch.no_grad()
    def _evaluate_policies(self, step: int) -> dict[str, list[Tensor]]:
        outputs = {}
        for policy in self.policies:
            actor = self._actor(policy)
            observations = actor.process_one_step_obs()
            actor.push_processed_obs_to_batch(step, observations, ring_buffer=self.ring_buffer)
            found = actor(observations)
            outputs[policy] = found[0] if isinstance(found, tuple) else found
        return outputs

    def _combined(self, outputs: Mapping[str, list[Tensor]]) -> list[Tensor]:
        """Return the outputs of several policies as those of all agents."""
        (ids, first), *others = ((self.policy_tag_to_agent_id_map[tag], found) for tag, found in outputs.items())
        if not others and ids == list(range(self.cuda_envs.n_agents)):
            return first
        combined = [part.new_zeros(len(part), self.cuda_envs.n_agents, part.shape[-1]) for part in first]
        for agents, found in [(ids, first), *others]:
            for whole, part in zip(combined, found, strict=True):
                whole[:, agents] = part
        return combined

    def _sample(self, outputs: list[Tensor], suffix: str, **sample_params: Any) -> Tensor:
        actions: Tensor = self.data.data_on_device_via_torch(Constants.ACTIONS + suffix)
        for index, component in enumerate(outputs):
            name = Constants.ACTIONS + (f"_{index}" if len(outputs) > 1 else "") + suffix
            self.cuda_sample_controller.sample(self.data, component, name, **sample_params)
            if len(outputs) > 1:
                actions[..., index] = self.data.data_on_device_via_torch(name)[..., 0]
        return actions

    def _rewards(self, policy: str) -> Tensor:
        separate = self.create_separate_placeholders_for_each_policy
        name = f"{Constants.REWARDS}_{policy}" if separate else Constants.REWARDS
        rewards: Tensor = self.data.data_on_device_via_torch(name)
        return rewards if separate else rewards[:, self.policy_tag_to_agent_id_map[policy]]

    def _record(self, step: int) -> None:
        done = self.data.data_on_device_via_torch("_done_")
        self._write(f"{Constants.DONE_FLAGS}_batch", step, done)
        ended = done > 0
        for policy in self.policies:
            rewards, totals = self._rewards(policy), self._totals[policy]
            self._write(f"{Constants.REWARDS}_batch_{policy}", step, rewards)
            totals["return"] += rewards.sum(dim=1)
            totals["length"] += 1
            for name in ("return", "length"):
                totals[f"ended_{name}"] += torch.where(ended, totals[name], 0).sum()
                totals[name].masked_fill_(ended, 0)
            totals["episodes"] += ended.sum()

    def _write(self, name: str, step: int, values: Tensor) -> None:
        if self.ring_buffer.has(name):
            self.ring_buffer[name].enqueue(values)
        else:
            self.data.data_on_device_via_torch(name)[step] = values

    def _reset_statistics(self) -> None:
        device = self.data.tensor("_done_").device

        def totals() -> dict[str, Tensor]:
            running = {name: torch.zeros(self.num_envs, device=device) for name in ("return", "length")}
            ended = {name: torch.zeros((), device=device) for name in ("ended_return", "ended_length", "episodes")}
            return {**running, **ended}

        self._totals = {policy: totals() for policy in self.policies}

    def _statistics(self, policy: str) -> dict[str, float]:
        totals = self._totals[policy]
        episodes = totals["episodes"].clamp(min=1)
        found = {
            "Mean episodic reward": float(totals["ended_return"] / episodes),
            "Mean episodic steps": float(totals["ended_length"] / episodes),
        }
        for name in ("ended_return", "ended_length", "episodes"):
            totals[name].zero_()
        return found

    def _is_due(self, iteration: int, key: str) -> bool:
        return iteration % self.config["saving"][key] == 0 or iteration == self.num_iters - 1

    def _update_model_params(self, iteration: int) -> dict[str, dict[str, float]]:
        began, logged = time.perf_counter(), self._is_due(iteration, "metrics_log_freq")
        metrics = {}
        for policy in self.policies_to_train:
            found = self._update(policy, logged)
            if logged:
                timestep = {"Current timestep": float(self.current_timestep[policy])}
                metrics[policy] = {**found, **timestep, **self._statistics(policy)}
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.perf_stats.training_time += time.perf_counter() - began
        if logged and self.config["trainer"].get("evaluator"):
            rewards, steps = self.evaluate_episodes(use_argmax=True, scale=0.0)
            for policy in metrics:
                metrics[policy]["Mean episodic reward (test)"] = float(rewards[policy].mean())
                metrics[policy]["Mean episodic steps (test)"] = float(steps[policy].mean())
        return metrics

    def _log_metrics(self, metrics: Mapping[str, Mapping[str, float]]) -> None:
        performance = self.perf_stats.get_perf_stats()
        if self.verbose:
            print(f"\nDevice {self.device_id}: iterations completed: {self.perf_stats.iters} / {self.num_iters}")
            for title, values in {"Performance": performance, **metrics}.items():
                print("\n".join([f"{'=' * 40}\n{title}", *(f"{name:42}: {n:12.5f}" for name, n in values.items())]))
        name = f"results_device_{self.device_id}.json" if self.num_devices > 1 else "results.json"
        row = {"Iterations Completed": self.perf_stats.iters, **metrics, "Perf. Stats": performance}
        with Path(self.save_dir, name).open("a", encoding="utf8") as file:
            file.write(json.dumps(row) + "\n")

    def load_model_checkpoint(self, ckpts_dict: Mapping[str, Any] | None = None) -> None:
        """Load parameters, and the timesteps in the names of the files.

        Args:
            ckpts_dict: Files by policy tag, or dictionaries of those of ``actor`` and ``critic``; None: the values of
                ``model.model_ckpt_filepath`` in the run configuration. Empty names are skipped.
        """
        given = ckpts_dict
        if given is None:
            models = {policy: self.config["policy"][policy]["model"] for policy in self.policies}
            given = {policy: model.get("model_ckpt_filepath", "") for policy, model in models.items()}
        for policy, files in given.items():
            assert policy in self.policies, f"there is no policy '{policy}'"
            for model, file in zip(self._checkpointed(policy).values(), _values(files), strict=False):
                if file:
                    model.load_state_dict(torch.load(file, next(model.parameters()).device, weights_only=True))
                    self.current_timestep[policy] = int(Path(file).stem.rpartition("_")[2])

    def save_model_checkpoint(self, iteration: int = 0) -> None:
        """Write the parameters as ``<policy>_<timestep>.state_dict``, every ``model_params_save_freq`` iterations."""
        if self.device_id == 0 and self._is_due(iteration, "model_params_save_freq"):
            for policy in self.policies:
                for name, model in self._checkpointed(policy).items():
                    path = Path(self.save_dir, f"{name}_{self.current_timestep[policy]}.state_dict")
                    torch.save(model.state_dict(), path)

    def graceful_close(self) -> None:
        """Release the sampler."""
        del self.cuda_sample_controller

    def fetch_episode_states(
        self,
        list_of_states: list[str] | None = None,
        env_id: int = 0,
        include_rewards_actions: bool = False,
        include_probabilities: bool = False,
        policy: str = "",
        **sample_params: Any,
    ) -> Any:
        """Play an episode with the current policies, and return arrays of one replica.

        Args:
            list_of_states: Names of the arrays.
            env_id: The replica.
            include_rewards_actions: If True, actions and rewards are returned, too.
            include_probabilities: If True, the outputs of the policies are returned, too, after actions and rewards.
            policy: Policy tag of these, if each policy has arrays of its own.
            **sample_params: Parameters of the sampler, for example ``use_argmax=True``.

        Returns:
            ``[episode_length + 1, ...]`` float64 for each array, NaN after the end of the episode; with actions and
            rewards a tuple with ``[episode_length, agents, components]`` and ``[episode_length, agents]``, and with
            outputs a dictionary of them by step.
        """
        assert 0 <= env_id < self.num_envs, f"there is no replica {env_id}"
        names, length = list_of_states or [], self.cuda_envs.episode_length
        suffix = f"_{policy}" if policy else ""
        states = {name: np.full((length + 1, *self.data.get_shape(name)[1:]), np.nan) for name in names}
        played = {
            name: np.zeros((length, *self.data.get_shape(name)[1:]), self.data.get_dtype(name))
            for name in (Constants.ACTIONS + suffix, Constants.REWARDS + suffix)
        }
        outputs: dict[int, dict[str, list[Any]]] = {}
        self.cuda_envs.reset_all_envs()
        for step in range(length):
            self._store(states, step, env_id)
            found = self._act(-1, **sample_params)
            self.cuda_envs.step_all_envs()
            self._store(played, step, env_id)
            chosen = {policy: found[policy]} if policy else found
            outputs[step] = {tag: [part[env_id].cpu().numpy() for part in parts] for tag, parts in chosen.items()}
            if self.data.pull_data_from_device("_done_")[env_id]:
                self._store(states, step + 1, env_id)
                break
        if not include_rewards_actions:
            return states
        return (states, *played.values(), outputs) if include_probabilities else (states, *played.values())

    def _store(self, arrays: Mapping[str, Any], step: int, env_id: int) -> None:
        for name, values in arrays.items():
            values[step] = self.data.tensor(name)[env_id].cpu().numpy()

    def evaluate_episodes(self, **sample_params: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Play one episode in every replica with the current policies.

        Args:
            **sample_params: Parameters of the sampler, for example ``use_argmax=True``.

        Returns:
            By policy tag the returns ``[num_envs, agents]`` and the lengths ``[num_envs]`` of the episodes.
        """
        self.cuda_envs.reset_all_envs()
        done = self.data.data_on_device_via_torch("_done_")
        returns = {policy: torch.zeros_like(self._rewards(policy)) for policy in self.policies}
        lengths = torch.zeros_like(done)
        for _ in range(self.cuda_envs.episode_length):
            running = done == 0
            if not running.any():
                break
            self._act(-1, **sample_params)
            self.cuda_envs.step_all_envs()
            lengths += running
            for policy, total in returns.items():
                total += torch.where(running.unsqueeze(1), self._rewards(policy), 0.0)
            done[~running] = 1
            self.cuda_envs.reset_only_done_envs(undo_done_after_reset=False)
        self.cuda_envs.reset_all_envs()
        steps = {policy: lengths.cpu().numpy() for policy in self.policies}
        return {policy: total.cpu().numpy() for policy, total in returns.items()}, steps


def _values(files: Any) -> list[str]:
    return list(files.values()) if isinstance(files, Mapping) else [files]


class TrainerA2C(TrainerBase):
    """Trainer of actor-critics, with A2C or PPO. Arguments are those of :class:`TrainerBase`."""

    def _actor(self, policy: str) -> Any:
        return self.models[policy]

    def _checkpointed(self, policy: str) -> dict[str, nn.Module]:
        return {policy: self.models[policy]}

    def _initialize(self, policy: str) -> None:
        section = self.config["policy"][policy]
        shared = ("normalize_advantage", "normalize_return", "vf_loss_coeff", "entropy_coeff")
        arguments = {"discount_factor_gamma": section["gamma"], **{name: section[name] for name in shared}}
        match section["algorithm"]:
            case "A2C":
                self.trainers[policy] = A2C(**arguments)
            case "PPO":
                self.trainers[policy] = PPO(clip_param=section["clip_param"], **arguments)
            case other:
                raise ConfigError(f"policy.{policy}.algorithm: found {other!r}, expected A2C or PPO")
        self.models[policy] = self._new_model(policy, section["model"])
        self.optimizers[policy] = torch.optim.Adam(self.models[policy].parameters())

    def _update(self, policy: str, logged: bool) -> dict[str, float]:
        actions, rewards, observations = (
            self.data.data_on_device_via_torch(f"{name}_batch_{policy}")
            for name in (Constants.ACTIONS, Constants.REWARDS, Constants.PROCESSED_OBSERVATIONS)
        )
        done = self.data.data_on_device_via_torch(f"{Constants.DONE_FLAGS}_batch")
        self.current_timestep[policy] += self.training_batch_size
        timestep = self.current_timestep[policy]
        model = self.models[policy]
        loss, metrics = self.trainers[policy].compute_loss_and_metrics(
            timestep,
            actions,
            rewards,
            done,
            *_outputs(model, observations),
            perform_logging=logged,
            negative_positive_ratio=self.neg_pos_env_ratio,
        )
        lr = ParamScheduler(self.config["policy"][policy]["lr"]).get_param_value(timestep)
        norm = self._descend(policy, self.optimizers[policy], loss, lr)()
        return {**metrics, "Gradient norm": float(norm), "Learning rate": lr} if logged else {}


class TrainerDDPG(TrainerBase):
    """Trainer of deterministic policies on the last batches. Arguments are those of :class:`TrainerBase`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.actor_models: dict[str, Any] = {}
        self.critic_models: dict[str, Any] = {}
        self.target_actor_models: dict[str, Any] = {}
        self.target_critic_models: dict[str, Any] = {}
        super().__init__(*args, **kwargs)
        for name in self.data.device_data_via_torch:
            if "_batch" in name:
                self.ring_buffer.add(name, data_manager=self.data)

    def _actor(self, policy: str) -> Any:
        return self.actor_models[policy]

    def _checkpointed(self, policy: str) -> dict[str, nn.Module]:
        return {f"{policy}_actor": self.actor_models[policy], f"{policy}_critic": self.critic_models[policy]}

    def _initialize(self, policy: str) -> None:
        section = self.config["policy"][policy]
        if section["algorithm"] != "DDPG":
            raise ConfigError(f"policy.{policy}.algorithm: found {section['algorithm']!r}, expected DDPG")
        normalized = {name: section[name] for name in ("normalize_advantage", "normalize_return")}
        self.trainers[policy] = DDPG(section["gamma"], n_step=self.n_step, **normalized)
        for part, models, targets in (
            ("actor", self.actor_models, self.target_actor_models),
            ("critic", self.critic_models, self.target_critic_models),
        ):
            models[policy], targets[policy] = (self._new_model(policy, _part(section["model"], part)) for _ in range(2))
            targets[policy].load_state_dict(models[policy].state_dict())
            self.optimizers[f"{policy}_{part}"] = torch.optim.Adam(models[policy].parameters())

    def _update(self, policy: str, logged: bool) -> dict[str, float]:
        rows = self.ring_buffer[f"{Constants.DONE_FLAGS}_batch"]
        if not rows.isfull():
            return {}
        actions, rewards, observations = (
            self.ring_buffer[f"{name}_batch_{policy}"].unroll()
            for name in (Constants.ACTIONS, Constants.REWARDS, Constants.PROCESSED_OBSERVATIONS)
        )
        actor, critic = self.actor_models[policy], self.critic_models[policy]
        with torch.no_grad():
            following = self.target_actor_models[policy](obs=observations[1:])
            next_values = self.target_critic_models[policy](obs=observations[1:], action=following)
        self.current_timestep[policy] += self.training_batch_size
        timestep = self.current_timestep[policy]
        metrics: dict[str, float]
        actor_loss, critic_loss, metrics = self.trainers[policy].compute_loss_and_metrics(
            timestep,
            actions,
            rewards,
            rows.unroll(),
            critic(obs=observations, action=actions),
            next_values,
            critic(obs=observations, action=actor(obs=observations)),
            perform_logging=logged,
        )
        section = self.config["policy"][policy]
        steps = {}  # both gradients before either step, since they share the critic's graph
        for part, loss in (("actor", actor_loss), ("critic", critic_loss)):
            lr = ParamScheduler(_part(section["lr"], part)).get_param_value(timestep)
            steps[part] = self._descend(policy, self.optimizers[f"{policy}_{part}"], loss, lr)
            metrics[f"Learning rate ({part.capitalize()})"] = lr
        norms = {part: step() for part, step in steps.items()}
        if logged:
            metrics |= {f"Gradient norm ({part.capitalize()})": float(norm) for part, norm in norms.items()}
        for models, targets in (
            (self.actor_models, self.target_actor_models),
            (self.critic_models, self.target_critic_models),
        ):
            with torch.no_grad():
                for target, source in zip(targets[policy].parameters(), models[policy].parameters(), strict=True):
                    target.lerp_(source, section["tau"])
        return metrics


def _outputs(model: Any, observations: Tensor) -> tuple[list[Tensor], Tensor]:
    """Return the outputs of an actor-critic for a batch. Those of large batches are computed again for the gradient."""
    steps = max(1, _FLOATS_AT_ONCE // (observations[0].numel() // observations.shape[-1] * sum(model.fc_dims)))
    if steps >= len(observations) or model.action_mask is not None:
        found: tuple[list[Tensor], Tensor] = model(obs=observations)
        return found
    parts = [checkpoint(model, part, use_reentrant=False) for part in observations.split(steps)]
    probabilities = [torch.cat(components) for components in zip(*(part[0] for part in parts), strict=True)]
    return probabilities, torch.cat([values for _, values in parts])


def _part(section: Any, part: str) -> Any:
    """Return the section of the actor or the critic, or the section of both."""
    return section[part] if isinstance(section, Mapping) and part in section else section


def Trainer(env_wrapper: Any = None, config: dict[str, Any] | None = None, *args: Any, **kwargs: Any) -> TrainerBase:  # noqa: N802
    """Return a trainer for the algorithm of the first policy. Arguments are those of :class:`TrainerBase`."""
    algorithms = [section.get("algorithm") for section in (config or {}).get("policy", {}).values()]
    trainer = TrainerDDPG if algorithms[:1] == ["DDPG"] else TrainerA2C
    return trainer(env_wrapper, config, *args, **kwargs)
