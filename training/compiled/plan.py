"""Plans of models and algorithms: the properties that native code is specialised for."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from warpdrive.training.compiled.action_values import ActionValuePlan
from warpdrive.training.compiled.actor_critic import ActorPlan, CriticPlan
from warpdrive.training.compiled.network import Dense
from warpdrive.training.compiled.perceptron import CompiledPerceptron
from warpdrive.training.compiled.policy_gradient import PolicyPlan
from warpdrive.training.compiled.recurrence import CompiledRecurrence
from warpdrive.training.compiled.recurrent_policy import RecurrentPolicyPlan
from warpdrive.training.compiled.units import UNITS, Trunk
from warpdrive.training.models.base import Actor, ActorCritic
from warpdrive.training.models.continuous import Critic, DeterministicActor, SquashedActor
from warpdrive.training.models.critic_inputs import RowLayout
from warpdrive.training.models.distributions import Categorical, Distribution, Gaussian, SquashedGaussian
from warpdrive.training.models.fully_connected import FullyConnected
from warpdrive.training.models.parameters import as_vector
from warpdrive.training.models.q_network import QNetwork
from warpdrive.training.models.recurrent import Cell, Recurrent

_NAMES = {nn.Tanh: "tanh", nn.ReLU: "relu", nn.ELU: "elu", nn.SiLU: "silu"}
_MAX_OUTPUTS = 64  # heads are unrolled: more outputs take seconds to compile


class NoPlanError(Exception):
    """Model, distribution or optimizer that native code does not support; the message names it."""


def policy_plan_of(
    algorithm: str,
    model: ActorCritic,
    distribution: Distribution,
    optimizer: torch.optim.Optimizer,
    critic: tuple[nn.Module, int] | None = None,
    is_apart: bool = False,
    **options: Any,
) -> PolicyPlan:
    """Return the plan of an update of a policy and its value function.

    Args:
        algorithm: ``"ppo"`` or ``"a2c"``.
        model: Model to train.
        distribution: Action distribution for the model's logits.
        optimizer: Optimizer of the model's parameters, as one vector.
        critic: Layers of a centralised critic and the number of its inputs; None for the model's own value function.
        is_apart: If True, the critic has a separate optimizer.
        options: Further attributes of :class:`PolicyPlan`.

    Returns:
        The plan, without the properties that depend on the experience.

    Raises:
        NoPlanError: If there is none.
    """
    if not (type(model) is FullyConnected or type(model) is Recurrent):
        raise NoPlanError(f"the model is a {type(model).__name__}, neither fully connected nor recurrent")
    vector = vector_of(optimizer)
    if type(distribution) is Categorical:
        options.update(choices=distribution.sizes, components=len(distribution.sizes))
    elif isinstance(distribution, Gaussian | SquashedGaussian):
        assert model.log_std is not None
        log_reach = 0.0 if distribution.box is None else distribution.box.log_reach
        log_std, is_squashed = _place(model.log_std, vector), isinstance(distribution, SquashedGaussian)
        components = distribution.num_outputs
        options.update(components=components, log_std=log_std, log_reach=log_reach, squashed=is_squashed)
    else:
        raise NoPlanError(f"the action distribution is a {type(distribution).__name__}")
    value, size = (model.value, 0) if critic is None else critic
    options.update(
        algorithm=algorithm,
        parameters=vector.numel(),
        observations=model.flatten.size,
        policy=_unrolled(layers_of(model.policy, vector)),
        value=() if is_apart else layers_of(value, vector),
        states=None if is_apart or critic is None else _stored_one_by_one(size),
    )
    if isinstance(model, Recurrent):
        trunks = [_trunk_of(*parts, vector) for parts in zip(model.encoders, model.cells, strict=True)]
        used = tuple(trunks if critic is None else trunks[:1])
        return RecurrentPolicyPlan(trunks=used, state_size=model.state_size, **options)
    trunk = () if isinstance(model.trunk, nn.Identity) else layers_of(model.trunk, vector)
    return PolicyPlan(trunk=trunk, **options)


def _trunk_of(encoder: nn.Module, cell: nn.Module, vector: Tensor) -> Trunk:
    """Return the plan of an encoder and recurrent units."""
    assert isinstance(cell, Cell)
    layers = layers_of(encoder, vector) if any(encoder.children()) else ()
    inputs = next(cell.parameters()).shape[-1]
    places = tuple(_place(parameter, vector) for parameter in cell.parameters())
    return Trunk(layers, cell.kind, inputs, cell.hidden_size, places)


def critic_plan_of(critic: tuple[nn.Module, int], optimizer: torch.optim.Optimizer, **options: Any) -> PolicyPlan:
    """Return the plan of an update of a centralised critic with a separate optimizer.

    Args:
        critic: Layers of the critic and the number of its inputs.
        optimizer: Optimizer of the critic, as one vector.
        options: Further attributes of :class:`PolicyPlan`.

    Returns:
        The plan.

    Raises:
        NoPlanError: If there is none.
    """
    vector, (layers, size) = vector_of(optimizer), critic
    options.update(value=layers_of(layers, vector), states=_stored_one_by_one(size))
    return PolicyPlan(parameters=vector.numel(), **options)


def _stored_one_by_one(size: int) -> RowLayout:
    """Return the layout of rows without shared parts, a placeholder until the experience is known."""
    return RowLayout(size, 0, 0, 1)


def q_plan_of(model: Actor, optimizer: torch.optim.Optimizer, huber: bool) -> ActionValuePlan:
    """Return the plan of gradient steps of action values.

    Args:
        model: Action-value network.
        optimizer: Optimizer of its parameters, as one vector.
        huber: If True, the loss is linear beyond ``huber_delta``.

    Returns:
        The plan.

    Raises:
        NoPlanError: If there is none.
    """
    if type(model) is not QNetwork or not isinstance(model.features, nn.Identity):
        raise NoPlanError(f"the model is a {type(model).__name__}, not fully connected")
    vector = vector_of(optimizer)
    return ActionValuePlan(parameters=vector.numel(), layers=_unrolled(layers_of(model.value, vector)), huber=huber)


def actor_critic_plans_of(
    model: DeterministicActor | SquashedActor,
    critics: Critic,
    policy_optimizer: torch.optim.Optimizer,
    critic_optimizer: torch.optim.Optimizer,
    smoothed: bool,
) -> tuple[CriticPlan, ActorPlan]:
    """Return the plans of gradient steps of the critics and of the policy of DDPG, TD3 and SAC.

    Args:
        model: The policy.
        critics: Action-value function.
        policy_optimizer: Optimizer of the policy, as one vector.
        critic_optimizer: Optimizer of the critics, as one vector.
        smoothed: If True, noise is added to the actions of a deterministic target policy.

    Returns:
        The plans.

    Raises:
        NoPlanError: If there is none.
    """
    if not (isinstance(model.features, nn.Identity) and isinstance(critics.features, nn.Identity)):
        raise NoPlanError("the model has convolutions")
    of_policy, of_critics = vector_of(policy_optimizer), vector_of(critic_optimizer)
    shared: dict[str, Any] = {
        "observations": model.flatten.size,
        "components": model.components,
        "policy": _unrolled(layers_of(model.policy, of_policy)),
        "critics": tuple(layers_of(value, of_critics) for value in critics.values),
        "soft": isinstance(model, SquashedActor),
        "smoothed": smoothed,
    }
    return CriticPlan(parameters=of_critics.numel(), **shared), ActorPlan(parameters=of_policy.numel(), **shared)


def _unrolled(layers: tuple[Dense, ...]) -> tuple[Dense, ...]:
    """Return the layers of a network whose outputs are unrolled.

    Raises:
        NoPlanError: If there are too many.
    """
    if layers[-1].outputs > _MAX_OUTPUTS:
        raise NoPlanError(f"the network has {layers[-1].outputs} outputs, more than {_MAX_OUTPUTS}")
    return layers


def vector_of(optimizer: torch.optim.Optimizer) -> Tensor:
    """Return the vector of parameters of an optimizer.

    Raises:
        NoPlanError: If it is not Adam of one vector on the CPU, without further options.
    """
    if type(optimizer) is not torch.optim.Adam or len(optimizer.param_groups) != 1:
        raise NoPlanError(f"the optimizer is {type(optimizer).__name__}")
    (group,) = optimizer.param_groups
    changed = [name for name in ("weight_decay", "amsgrad", "maximize", "decoupled_weight_decay") if group.get(name)]
    if changed or len(group["params"]) != 1 or group["params"][0].dtype != torch.float32:
        raise NoPlanError(f"the optimizer has options of its own: {', '.join(changed) or 'parameters'}")
    vector: Tensor = group["params"][0]
    if vector.device.type != "cpu":
        raise NoPlanError(f"the model is on {vector.device}")
    return vector


def layers_of(network: nn.Module, vector: Tensor) -> tuple[Dense, ...]:
    """Return the layers of a sequence of linear layers and activations.

    Args:
        network: The sequence.
        vector: Vector that its parameters are views of.

    Returns:
        The layers.

    Raises:
        NoPlanError: If it has other modules.
    """
    layers: list[Dense] = []
    for module in network.children():
        if isinstance(module, nn.Linear):
            if module.weight.shape != (module.out_features, module.in_features) or module.bias is None:
                raise NoPlanError("the parameters of a layer are stacked, or it has no bias")
            places = _place(module.weight, vector), _place(module.bias, vector)
            layers.append(Dense(module.in_features, module.out_features, *places))
        elif isinstance(module, nn.LayerNorm) and layers and module.normalized_shape == (layers[-1].outputs,):
            norm = _place(module.weight, vector), _place(module.bias, vector), module.eps
            layers[-1] = replace(layers[-1], norm=norm)
        elif (name := _NAMES.get(type(module))) and layers and layers[-1].activation is None:
            layers[-1] = replace(layers[-1], activation=name)
        else:
            raise NoPlanError(f"the model has a {type(module).__name__}")
    if not layers:
        raise NoPlanError("the model has no layers")
    return tuple(layers)


def native_perceptron(network: nn.Module) -> CompiledPerceptron | None:
    """Return native code for a sequence of linear layers and activations on the CPU, or None if there is none."""
    if not _is_plain(network):
        return None
    try:
        # layers of a copy whose parameters are concatenated
        copied = copy.deepcopy(network)
        return CompiledPerceptron(layers_of(copied, as_vector(copied)))
    except NoPlanError:
        return None


def native_recurrence(cell: Cell) -> CompiledRecurrence | None:
    """Return native code for recurrent units on the CPU, or None if there is none."""
    (inputs, *_), gates, units = cell.parameters(), UNITS[cell.kind].of_inputs, cell.hidden_size
    if not _is_plain(cell) or inputs.shape != (gates * units, inputs.shape[-1]):
        return None
    return CompiledRecurrence(cell.kind, inputs.shape[-1], units)


def _is_plain(module: nn.Module) -> bool:
    """Return True if a module has parameters, all of which are float32 on the CPU."""
    parameters = list(module.parameters())
    return bool(parameters) and all(p.device.type == "cpu" and p.dtype == torch.float32 for p in parameters)


def _place(parameter: Tensor, vector: Tensor) -> int:
    """Return the index of a parameter in the vector."""
    place = (parameter.data_ptr() - vector.data_ptr()) // 4
    if not (place >= 0 and place + parameter.numel() <= vector.numel() and parameter.is_contiguous()):
        raise NoPlanError("parameters are not part of the optimizer's vector")
    return place
