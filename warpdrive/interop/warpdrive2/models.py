"""Fully connected policies and value functions, and models by name."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from warpdrive.errors import DefinitionError, nearest
from warpdrive.interop.warpdrive2.data_feed import Constants
from warpdrive.interop.warpdrive2.placeholders import AgentIds, action_type, get_flattened_obs_size

_MASKED = -1e20


class ModelBaseFullyConnected(nn.Module):
    """Base class of models: sizes, heads and observations. Subclasses fill ``fc`` and define ``forward``.

    Args:
        env: Replicas of the environment.
        model_config: Section ``model`` of the policy: ``fc_dims``; for continuous actions also ``output_w``, by which
            the hyperbolic tangent is scaled, and ``output_b``, which is added.
        policy: Policy tag.
        policy_tag_to_agent_id_map: Agent ids by policy tag.
        create_separate_placeholders_for_each_policy: If True, each policy has arrays of its own.
        obs_dim_corresponding_to_num_agents: Position of the agents in the observations: ``"first"`` or ``"last"``.
        include_policy_head: If True, the model has heads of the actions.
        include_value_head: If True, the model has a head of the values.
    """

    name = "model_base_fully_connected"

    def __init__(
        self,
        env: Any,
        model_config: Mapping[str, Any],
        policy: str,
        policy_tag_to_agent_id_map: Mapping[str, AgentIds],
        create_separate_placeholders_for_each_policy: bool = False,
        obs_dim_corresponding_to_num_agents: str = "first",
        include_policy_head: bool = True,
        include_value_head: bool = True,
    ) -> None:
        super().__init__()
        self.env, self.policy, self.policy_tag_to_agent_id_map = env, policy, policy_tag_to_agent_id_map
        self.fc_dims = list(model_config["fc_dims"])
        self.action_scale, self.action_bias = model_config.get("output_w", 1.0), model_config.get("output_b", 0.0)
        self.create_separate_placeholders_for_each_policy = create_separate_placeholders_for_each_policy
        self.obs_dim_corresponding_to_num_agents = obs_dim_corresponding_to_num_agents
        agent = policy_tag_to_agent_id_map[policy][0]
        self.observation_space = env.env.observation_space[agent]
        self.flattened_obs_size = get_flattened_obs_size(self.observation_space)
        dtype, choices = action_type(env.env.action_space[agent])
        self.is_deterministic, self.flattened_action_size = dtype is np.float32, len(choices)
        self.output_dims = [len(choices)] if self.is_deterministic else choices
        self.fc = nn.ModuleDict()
        if include_policy_head:
            heads = [nn.Linear(self.fc_dims[-1], count) for count in self.output_dims]
            self.policy_head = heads[0] if self.is_deterministic else nn.ModuleList(heads)
        if include_value_head:
            self.vf_head = nn.Linear(self.fc_dims[-1], 1)
        self.action_mask: Tensor | None = None
        self._action_mask_batch: Tensor | None = None
        self.batch_size = env.cuda_data_manager.get_shape(f"{Constants.PROCESSED_OBSERVATIONS}_batch_{policy}")[0]

    def add_layers(self, num_inputs: int) -> None:
        """Add the hidden layers ``fc_dims``, with ReLU."""
        for index, (inputs, outputs) in enumerate(zip([num_inputs, *self.fc_dims], self.fc_dims, strict=False)):
            self.fc[str(index)] = nn.Sequential(nn.Linear(inputs, outputs), nn.ReLU(inplace=True))

    def hidden(self, inputs: Tensor) -> Tensor:
        """Return the outputs of the last hidden layer."""
        for layer in self.fc.values():
            inputs = layer(inputs)
        return inputs

    def actions_of(self, hidden: Tensor) -> list[Tensor]:
        """Return the outputs of the policy for each component of the actions.

        Args:
            hidden: Outputs of the last hidden layer, ``[..., num_envs, agents, features]``.

        Returns:
            Probabilities ``[..., num_envs, agents, choices]``, or continuous actions ``[..., num_envs, agents, 1]``.
        """
        mask = self.action_mask if hidden.ndim == 3 else self._action_mask_batch
        if self.is_deterministic:
            squashed = torch.tanh(apply_logit_mask(self.policy_head(hidden), mask))
            actions = self.action_scale * squashed + self.action_bias
            return [component.contiguous() for component in actions.split(1, dim=-1)]
        masks = [None] * len(self.output_dims) if mask is None else mask.split(self.output_dims, dim=-1)
        heads = zip(self.policy_head, masks, strict=True)  # type: ignore[arg-type]
        return [apply_logit_mask(head(hidden), part).softmax(dim=-1) for head, part in heads]

    def reshape_and_flatten_obs(self, obs: Tensor) -> Tensor:
        """Return observations as ``[num_envs, agents, features]``."""
        shared = not self.create_separate_placeholders_for_each_policy
        agents = self.env.n_agents if shared else len(self.policy_tag_to_agent_id_map[self.policy])
        if self.obs_dim_corresponding_to_num_agents == "last" and obs.ndim > 2 and agents > 1:
            obs = obs.movedim(-1, 1)
        return obs.reshape(len(obs), agents, -1)

    def get_flattened_obs(self) -> Tensor:
        """Return the current observations of all agents, and keep their action mask."""
        suffix = f"_{self.policy}" if self.create_separate_placeholders_for_each_policy else ""
        parts = getattr(self.observation_space, "spaces", {"": None})
        found = {}
        for key in parts:
            array = Constants.OBSERVATIONS + suffix + (f"_{key}" if key != "" else "")
            found[key] = self.reshape_and_flatten_obs(self.env.cuda_data_manager.data_on_device_via_torch(array))
        self.action_mask = self._of_policy(found.pop(Constants.ACTION_MASK, None))
        return torch.cat(list(found.values()), dim=-1).float()

    def process_one_step_obs(self) -> Tensor:
        """Return the current observations of the policy's agents, ``[num_envs, agents, features]``."""
        observations = self._of_policy(self.get_flattened_obs())
        assert observations is not None
        return observations

    def _of_policy(self, values: Tensor | None) -> Tensor | None:
        if values is None or self.create_separate_placeholders_for_each_policy:
            return values
        return values[:, self.policy_tag_to_agent_id_map[self.policy]]

    def push_processed_obs_to_batch(self, batch_index: int, processed_obs: Tensor, ring_buffer: Any = None) -> None:
        """Write observations to a step of the batch.

        Args:
            batch_index: The step; -1: nowhere.
            processed_obs: ``[num_envs, agents, features]``.
            ring_buffer: Ring buffers, of which that of the observations is used if there is one.
        """
        if batch_index < 0:
            return
        name = f"{Constants.PROCESSED_OBSERVATIONS}_batch_{self.policy}"
        if ring_buffer is not None and ring_buffer.has(name):
            ring_buffer.get(name).enqueue(processed_obs)
            return
        self.env.cuda_data_manager.data_on_device_via_torch(name)[batch_index] = processed_obs
        if self.action_mask is not None:
            if self._action_mask_batch is None:
                self._action_mask_batch = self.action_mask.new_ones(self.batch_size, *self.action_mask.shape)
            self._action_mask_batch[batch_index] = self.action_mask


def apply_logit_mask(logits: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return logits with those of masked actions, where the mask is 0, close to minus infinity."""
    return logits if mask is None else logits + _MASKED * (1 - mask)


class FullyConnected(ModelBaseFullyConnected):
    """Actor-critic with shared hidden layers. Arguments are those of :class:`ModelBaseFullyConnected`."""

    name = "torch_fully_connected"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.add_layers(self.flattened_obs_size)

    def forward(self, obs: Tensor, action: Any = None) -> tuple[list[Tensor], Tensor]:
        """Return the outputs of the policy, see ``actions_of``, and value estimates ``[..., num_envs, agents]``."""
        hidden = self.hidden(obs)
        return self.actions_of(hidden), self.vf_head(hidden)[..., 0]


class FullyConnectedActor(ModelBaseFullyConnected):
    """Policy without value function. Arguments are those of :class:`ModelBaseFullyConnected`."""

    name = "torch_fully_connected_actor"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "include_value_head": False})
        self.add_layers(self.flattened_obs_size)

    def forward(self, obs: Tensor, action: Any = None) -> list[Tensor]:
        """Return the outputs of the policy, see ``actions_of``."""
        return self.actions_of(self.hidden(obs))


class FullyConnectedActionValueCritic(ModelBaseFullyConnected):
    """Value function of observations and actions. Arguments are those of :class:`ModelBaseFullyConnected`."""

    name = "torch_fully_connected_q"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "include_policy_head": False})
        self.add_layers(self.flattened_obs_size + self.flattened_action_size)

    def forward(self, obs: Tensor, action: Any = None) -> Tensor:
        """Return the values of actions, a tensor or one for each component: ``[..., num_envs, agents]``."""
        actions = action if isinstance(action, list) else [action]
        values: Tensor = self.vf_head(self.hidden(torch.cat([obs, *actions], dim=-1)))
        return values[..., 0]


class ModelFactory:
    """Models by name."""

    model_pool: ClassVar[dict[str, str]] = {
        "fully_connected": f"{__name__}:FullyConnected",
        "fully_connected_actor": f"{__name__}:FullyConnectedActor",
        "fully_connected_action_value_critic": f"{__name__}:FullyConnectedActionValueCritic",
    }

    @classmethod
    def add(cls, model_name: str, model_path: str, object_name: str) -> None:
        """Register a model.

        Args:
            model_name: Its name in run configurations.
            model_path: Name of its module.
            object_name: Name of its class.

        Raises:
            DefinitionError: If another model has that name.
        """
        target = f"{model_path}:{object_name}"
        if cls.model_pool.setdefault(model_name, target) != target:
            raise DefinitionError(f"the model '{model_name}' is already registered: {cls.model_pool[model_name]}")

    @classmethod
    def create(cls, model_name: str) -> Any:
        """Return the class of a model. Raises :class:`DefinitionError` if there is none of this name."""
        if model_name not in cls.model_pool:
            raise DefinitionError(f"there is no model '{model_name}'.{nearest(model_name, cls.model_pool)}")
        module, _, name = cls.model_pool[model_name].partition(":")
        return getattr(importlib.import_module(module), name)
