"""Checks of the inputs and outputs of models, for their authors.

``wd.CheckDevice`` shares the parameters, buffers and modules of the model that it wraps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium import Space, spaces
from torch import Tensor

from warpdrive.device_context import torch_dtype
from warpdrive.errors import ModelError, shown
from warpdrive.observations import Observations
from warpdrive.training.models.base import Actor, ActorCritic
from warpdrive.training.models.distributions import distribution_of
from warpdrive.training.models.recurrent import RecurrentActor
from warpdrive.user_code import user_code

if TYPE_CHECKING:
    from warpdrive.env_wrapper import EnvWrapper


class CheckDevice(ActorCritic):
    """Wrapper of a model that checks device, dtype and shape of its inputs and outputs.

    Nothing else changes: parameters, buffers and modules are the model's, under the same names. The checks do not
    synchronise with the device.

    Args:
        model: Actor-critic model, user-defined or any other.
        observation_space: Observation space of one agent; None: shapes of observations are not checked.
        action_space: Action space of one agent; None: the number of logits is not checked.

    Raises:
        ModelError: If a call has an unexpected tensor: names the method, the tensor and the expectation.
    """

    _model: ActorCritic

    def __init__(
        self, model: ActorCritic, observation_space: Space[Any] | None = None, action_space: Space[Any] | None = None
    ) -> None:
        super().__init__()
        # share the model's dictionaries: a submodule would change parameter names
        self._parameters, self._buffers, self._modules = model._parameters, model._buffers, model._modules
        object.__setattr__(self, "_model", model)
        self.state_size, self.action_units = model.state_size, model.action_units
        self.observation_space = observation_space
        self._num_logits: int | None = None
        if action_space is not None:
            distribution = distribution_of(action_space)
            self._num_logits = distribution.num_outputs + distribution.num_log_stds

    def logits(self, observations: Observations) -> Tensor:
        """See ``Actor``."""
        leading = self._check_observations("logits", observations)
        logits = self._model.logits(observations)
        return self._checked("logits", "logits", logits, leading, [self._num_logits])

    def values(self, observations: Observations) -> Tensor:
        """See ``ActorCritic``."""
        leading = self._check_observations("values", observations)
        return self._checked("values", "values", self._model.values(observations), leading, [])

    def forward(self, observations: Observations) -> tuple[Tensor, Tensor]:
        """See ``ActorCritic``."""
        leading = self._check_observations("forward", observations)
        logits, values = self._parts("forward", self._model(observations), ["logits", "values"])
        self._checked("forward", "logits", logits, leading, [self._num_logits])
        return logits, self._checked("forward", "values", values, tuple(logits.shape[:-1]), [])

    def step(self, observations: Observations, state: Tensor) -> tuple[Tensor, Tensor]:
        """See ``Actor``."""
        leading = self._check_observations("step", observations)
        self._check_input("step", "state", state, leading, [self.state_size], torch.float32)
        logits, after = self._parts("step", self._model.step(observations, state), ["logits", "state"])
        self._checked("step", "logits", logits, leading, [self._num_logits])
        return logits, self._checked("step", "state", after, tuple(logits.shape[:-1]), [self.state_size])

    def forward_sequence(
        self, observations: Observations, state: Tensor, begins: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See ``ActorCritic``."""
        self._check_observations("forward_sequence", observations)
        self._check_input("forward_sequence", "begins", begins, None, [None, None], torch.bool)
        leading = tuple(begins.shape)
        self._check_input("forward_sequence", "state", state, leading[1:], [self.state_size], torch.float32)
        made = self._model.forward_sequence(observations, state, begins)
        logits, values, states = self._parts("forward_sequence", made, ["logits", "values", "states"])
        self._checked("forward_sequence", "logits", logits, leading, [self._num_logits])
        self._checked("forward_sequence", "values", values, leading, [])
        return logits, values, self._checked("forward_sequence", "states", states, leading, [self.state_size])

    def in_replicas(self, num_envs: int, num_agents: int) -> Actor:
        """See ``Actor``."""
        return RecurrentActor(self, num_envs, num_agents) if self.state_size else self

    def act(self, env: EnvWrapper, tag: str) -> None:
        """See ``Actor``. If the model overrides it, the calls within are not checked."""
        if type(self._model).act is Actor.act:
            super().act(env, tag)
        else:
            self._model.act(env, tag)

    def observe(self, observations: Observations, weight: Tensor) -> None:
        """See ``Actor``."""
        self._model.observe(observations, weight)

    def train(self, mode: bool = True) -> CheckDevice:
        """See ``torch.nn.Module``."""
        self._model.train(mode)
        self.training = mode
        return self

    def _device(self, method: str) -> torch.device:
        """Return the device of the model; raise if it is on several devices."""
        own = dict([*self.named_parameters(), *self.named_buffers()])
        if not own:
            raise ModelError(f"{self._name}: found no parameters, expected at least one to train")
        plain = {
            f"{path}.{name}".lstrip("."): value
            for path, module in self._model.named_modules()
            for name, value in vars(module).items()
            if isinstance(value, Tensor) and value.dim() > 0  # scalars may be on any device
        }
        first, device = next((name, tensor.device) for name, tensor in own.items())
        for name, tensor in (own | plain).items():
            if tensor.device != device:
                what = (
                    " (register it with self.register_buffer, which moves it with the model)" if name in plain else ""
                )
                raise ModelError(
                    f"{self._name}.{method}: found the model's tensor '{name}' on {tensor.device}{what}, "
                    f"expected {device}, where '{first}' is"
                )
        return device

    def _check_observations(self, method: str, observations: Observations) -> tuple[int, ...] | None:
        """Return the leading axes, in front of those of one observation; None if they cannot be determined."""
        space = self.observation_space
        if not isinstance(space, spaces.Dict):
            if isinstance(observations, dict):
                for key, part in observations.items():
                    self._check_input(method, f"observations['{key}']", part, None, [])
                return None
            return self._leading_of(method, "observations", observations, space)
        if not isinstance(observations, dict) or observations.keys() != space.keys():
            found = sorted(observations) if isinstance(observations, dict) else type(observations).__name__
            raise ModelError(f"{self._name}.{method}: found observations {found}, expected a dict of {sorted(space)}")
        leading = [self._leading_of(method, f"observations['{key}']", observations[key], space[key]) for key in space]
        return leading[0]

    def _leading_of(
        self, method: str, what: str, observations: Any, space: Space[Any] | None
    ) -> tuple[int, ...] | None:
        shape = [] if space is None else list(space.shape or ())
        self._check_input(method, what, observations, None, shape)
        return None if space is None else tuple(observations.shape[: observations.dim() - len(shape)])

    def _check_input(
        self,
        method: str,
        what: str,
        found: Any,
        leading: tuple[int, ...] | None,
        tail: Sequence[int | None],
        dtype: torch.dtype | None = None,
    ) -> None:
        self._compare(method, f"the input '{what}'", found, leading, tail, dtype)

    def _checked(
        self, method: str, what: str, found: Any, leading: tuple[int, ...] | None, tail: Sequence[int | None]
    ) -> Tensor:
        self._compare(method, f"the output '{what}'", found, leading, tail, torch.float32)
        assert isinstance(found, Tensor)
        return found

    def _compare(
        self,
        method: str,
        what: str,
        found: Any,
        leading: tuple[int, ...] | None,
        tail: Sequence[int | None],
        dtype: torch.dtype | None,
    ) -> None:
        """Raise if ``found`` is not a tensor of the expected device, dtype and shape."""
        description = f"{self._name}.{method}: found {what}"
        if not isinstance(found, Tensor):
            raise ModelError(f"{description} = {type(found).__name__}, expected a tensor")
        device = self._device(method)
        if found.device != device:
            raise ModelError(f"{description} on {found.device}, expected {device}, where the model's parameters are")
        if dtype is not None and found.dtype != dtype:
            raise ModelError(f"{description} of dtype {_name_of(found.dtype)}, expected {_name_of(dtype)}")
        axes = found.dim() - len(tail)
        shape = tuple(found.shape)
        rows = axes >= 0 and (leading is None or shape[:axes] == leading)
        if not rows or not all(length in (None, there) for length, there in zip(tail, shape[axes:], strict=True)):
            front = ["..."] if leading is None else [str(length) for length in leading]
            expected = ", ".join([*front, *("n" if length is None else str(length) for length in tail)])
            raise ModelError(f"{description} of shape {shape}, expected ({expected})")

    def _parts(self, method: str, made: Any, names: Sequence[str]) -> tuple[Any, ...]:
        if not isinstance(made, tuple) or len(made) != len(names):
            raise ModelError(
                f"{self._name}.{method}: found the output {type(made).__name__}, expected a tuple of {', '.join(names)}"
            )
        return made

    @property
    def _name(self) -> str:
        return type(self._model).__name__


def check_outputs(
    model: ActorCritic, observation_space: Space[Any], action_space: Space[Any], leading: tuple[int, ...]
) -> None:
    """Check the shapes of the outputs of a user-defined model for observations of zeros, ``[*leading, *shape]``.

    Raises:
        ModelError: If an output is no tensor, or has another shape.
        DefinitionError: If the model raises an exception.
    """
    device = next((parameter.device for parameter in model.parameters()), None)
    observations = _zeros(observation_space, leading, device)
    distribution, was_training = distribution_of(action_space), model.training
    num_logits = distribution.num_outputs + distribution.num_log_stds
    model.eval()  # statistics and random numbers stay as they are
    for method, shape in (("logits", (*leading, num_logits)), ("values", leading)):
        name = f"{type(model).__name__}.{method}"
        with torch.no_grad(), user_code(name):
            output = getattr(model, method)(observations)
        if not isinstance(output, Tensor):
            raise ModelError(f"{name}: found {shown(output)}, expected a tensor")
        if output.shape != shape:
            raise ModelError(f"{name}: found a tensor of shape {tuple(output.shape)}, expected {shape}")
    model.train(was_training)


def _zeros(space: Space[Any], leading: tuple[int, ...], device: torch.device | None) -> Observations:
    if isinstance(space, spaces.Dict):
        return {key: _zeros(part, leading, device) for key, part in space.items()}
    dtype = torch_dtype(space.dtype if isinstance(space, spaces.Box) else np.int32, "observations")
    return torch.zeros(*leading, *(space.shape or ()), dtype=dtype, device=device)


def _name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
