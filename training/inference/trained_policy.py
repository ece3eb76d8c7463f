"""Trained policies for inference, without an environment, kernels or a GPU.

The manifest of a checkpoint holds the spaces (``checkpoint/space_description.py``) from which the model is built.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import Space, spaces
from torch import Tensor

from warpdrive.adapted import BoxWithIds
from warpdrive.arguments import check_is, check_within
from warpdrive.errors import ActionError, CheckpointError, ConfigError, ExportError, nearest, one_line, shown
from warpdrive.observations import Observations, tensors
from warpdrive.training.algorithms.base import LearningConfig
from warpdrive.training.checkpoint.checkpoint import Which, find_checkpoint, read_models
from warpdrive.training.checkpoint.space_description import space_of
from warpdrive.training.config.load import config_of_checkpoint
from warpdrive.training.config.named_code import check_named_code
from warpdrive.training.config.schema import RunConfig
from warpdrive.training.models import seeded
from warpdrive.training.models.base import Actor
from warpdrive.training.models.distributions import Distribution


class TrainedPolicy:
    """Trained policy of a policy tag for inference.

    A recurrent policy keeps a state for each row from one call of :meth:`act` to the next. :meth:`reset` begins new
    episodes in all rows.

    Args:
        tag: Policy tag.
        model: Model of the policy.
        observation_space: Observation space of one agent.
        action_space: Action space of one agent.
        distribution: Action distribution for the model's logits.
        seed: Seed of sampled actions; None: not reproducible.

    Attributes:
        num_ids: Number of agent ids at the end of an observation of the space, which :meth:`act` appends.
    """

    def __init__(
        self,
        tag: str,
        model: Actor,
        observation_space: Space[Any],
        action_space: Space[Any],
        distribution: Distribution,
        seed: int | None = None,
    ) -> None:
        assert action_space.shape is not None
        self.num_ids = observation_space.num_ids if isinstance(observation_space, BoxWithIds) else 0
        self.tag, self.model = tag, model.eval()
        self.observation_space, self.action_space = observation_space, action_space
        self.device = next(model.parameters()).device
        self.distribution = distribution.to(self.device)
        self._generator = torch.Generator(self.device)
        if seed is None:
            self._generator.seed()
        else:
            self._generator.manual_seed(seed)
        self._memory: Tensor | None = None  # [rows, state_size]: of the episodes that are under way
        self._bounds: tuple[Tensor, Tensor] | None = None
        if isinstance(action_space, spaces.Box):
            low, high = (torch.from_numpy(bound).to(self.device) for bound in (action_space.low, action_space.high))
            self._bounds = low, high

    @property
    def is_recurrent(self) -> bool:
        """True if the policy has recurrent state."""
        return self.model.state_size > 0

    def reset(self) -> None:
        """Reset the recurrent state: the next observations of :meth:`act` begin episodes, in any number of rows.

        Call it before each episode of a recurrent policy; it has no effect on others.
        """
        self._memory = None

    @torch.no_grad()
    def act(
        self,
        observations: Any,
        deterministic: bool = False,
        action_mask: npt.ArrayLike | Tensor | None = None,
        episode_start: npt.ArrayLike | Tensor | None = None,
        agents: npt.ArrayLike | Tensor | None = None,
    ) -> Any:
        """Choose an action for each observation.

        Args:
            observations: ``[..., *shape of an observation]``: one observation, or any number of them; a dict of these
                by key for a Dict space.
            deterministic: If True, take the most probable action instead of sampling.
            action_mask: ``[..., choices]`` bool, False for choices that are not allowed; None: all are.
            episode_start: ``[...]`` bool, True for rows in which an episode begins with this observation; None:
                nowhere. Only used by recurrent policies.
            agents: ``[...]`` integers, index of each row's agent among those of the policy tag; None: the last of the
                axes ``...`` has all these agents in order. Only used by policies with ``agent_ids``, whose observations
                are those of the environment, without ids.

        Returns:
            Actions for the environment: ``[...]`` int64 for Discrete, ``[..., n]`` int64 for MultiDiscrete,
            ``[..., *shape]`` of the space's dtype for Box, clipped to it. A tensor on the policy's device if
            ``observations`` are tensors, else an array (a NumPy number for one choice of one observation).

        Raises:
            ActionError: If ``observations`` or ``action_mask`` have another shape than in training; an observation is
                not in its Discrete or MultiDiscrete space; the number of rows differs from that of a recurrent policy's
                state; or the model's outputs are NaN.
        """
        leading, seen = self._rows(observations) if not self.num_ids else self._rows_with_ids(observations, agents)
        logits, memory = self.model.step(seen, self._recurrent_state(leading, episode_start))
        if bool(logits.isnan().any()):
            raise ActionError(
                f"policy '{self.tag}': found NaN in the outputs of the model, expected finite numbers: check the "
                "observations and the model's parameters"
            )
        self._memory = memory
        mask = None if action_mask is None else self._checked_mask(action_mask, (*leading, logits.shape[-1]))
        if deterministic:
            actions = self.distribution.mode(logits, mask)
        else:
            actions = self.distribution.sample(logits, self._generator, mask)
        actions = self.fitted(actions, leading)
        return actions if isinstance(next(tensors(observations)), Tensor) else actions.cpu().numpy()[()]

    def _rows(self, observations: Any) -> tuple[torch.Size, Observations]:
        """Return the leading axes, in front of those of one observation, and the observations with them flattened."""
        space = self.observation_space
        if not isinstance(space, spaces.Dict):
            return self._rows_of("observations", observations, space)
        if not isinstance(observations, Mapping) or set(observations) != set(space):
            found = sorted(observations) if isinstance(observations, Mapping) else type(observations).__name__
            raise ActionError(f"policy '{self.tag}': found observations {found}, expected a dict of {sorted(space)}")
        rows = {key: self._rows_of(f"observations['{key}']", observations[key], part) for key, part in space.items()}
        leading = {key: tuple(axes) for key, (axes, _) in rows.items()}
        if len(set(leading.values())) > 1:
            raise ActionError(f"policy '{self.tag}': found different numbers of observations by key: {leading}")
        return next(iter(rows.values()))[0], {key: part for key, (_, part) in rows.items()}

    def _rows_with_ids(self, observations: Any, agents: npt.ArrayLike | Tensor | None) -> tuple[torch.Size, Tensor]:
        """Return the leading axes, and flattened rows of observations with ids."""
        assert isinstance(self.observation_space, BoxWithIds)
        space = self.observation_space.original
        leading, rows = self._rows_of("observations", observations, space)
        ids = torch.arange(self.num_ids, device=self.device)
        which = ids if agents is None else self._tensor("agents", agents).long()
        ends = leading[len(leading) - which.dim() :]
        if which.dim() > len(leading) or which.shape != ends or not bool(torch.isin(which, ids).all()):
            found = (
                f"observations of shape {(*leading, *rows.shape[1:])}" if agents is None else f"agents {shown(agents)}"
            )
            raise ActionError(
                f"policy '{self.tag}': found {found}, expected observations [..., {self.num_ids}, {space.shape[0]}] of "
                f"all agents in order, or agents=... with the index of each row's agent, 0 to {self.num_ids - 1}"
            )
        which = which.expand(leading).reshape(-1, 1)
        return leading, torch.cat([rows, (which == ids).to(rows.dtype)], dim=-1)

    def _rows_of(self, what: str, observations: npt.ArrayLike | Tensor, space: Space[Any]) -> tuple[torch.Size, Tensor]:
        seen, shape = self._tensor(what, observations), space.shape
        assert shape is not None
        if len(shape) > seen.dim() or tuple(seen.shape[seen.dim() - len(shape) :]) != shape:
            many = ", ".join(["n", *(str(length) for length in shape)])
            raise ActionError(
                f"policy '{self.tag}': found {what} of shape {tuple(seen.shape)}, "
                f"expected {shape} for one, or ({many}) for n of them"
            )
        if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
            self._check_choices(what, seen, space)
        leading = seen.shape[: seen.dim() - len(shape)]
        return leading, seen.reshape((leading.numel(), *shape))

    def _check_choices(self, what: str, seen: Tensor, space: spaces.Discrete | spaces.MultiDiscrete) -> None:
        """Raise ``ActionError`` unless observations are whole numbers within the space, which begins at 0."""
        counts = torch.as_tensor(space.n if isinstance(space, spaces.Discrete) else space.nvec, device=self.device)
        possible = (seen >= 0) & (seen < counts) & (seen % 1 == 0)
        if not bool(possible.all()):
            wrong = seen[~possible][0].item()
            raise ActionError(f"policy '{self.tag}': found {shown(wrong)} in {what}, expected values in {space}")

    def _tensor(self, what: str, given: Any) -> Tensor:
        """Convert an argument to a dense tensor on the policy's device."""
        try:
            if isinstance(given, np.ndarray):
                given = np.ascontiguousarray(given, given.dtype.newbyteorder("="))
            tensor = torch.as_tensor(given, device=self.device)
        except (RuntimeError, TypeError, ValueError):
            raise ActionError(f"policy '{self.tag}': found {what} {shown(given)}, expected numbers") from None
        if tensor.layout != torch.strided or tensor.is_nested or tensor.is_complex():
            kind = "complex" if tensor.is_complex() else "sparse or nested"
            raise ActionError(f"policy '{self.tag}': found {what} in a {kind} tensor, expected a dense one of numbers")
        return tensor

    def _recurrent_state(self, leading: torch.Size, episode_start: npt.ArrayLike | Tensor | None) -> Tensor:
        """Return the recurrent state of each row before its observation, ``[rows, state_size]``."""
        rows = leading.numel()
        if self._memory is None or not self.is_recurrent:
            return torch.zeros(rows, self.model.state_size, device=self.device)
        begins = torch.zeros(leading, dtype=torch.bool, device=self.device)
        if episode_start is not None:
            begins = self._tensor("an episode_start", episode_start).bool()
        if begins.shape != leading:
            raise ActionError(
                f"policy '{self.tag}': found an episode_start of shape {tuple(begins.shape)}, expected {tuple(leading)}"
            )
        if len(self._memory) != rows:
            raise ActionError(
                f"policy '{self.tag}': found {rows} row(s) of observations, expected {len(self._memory)}, as in the "
                "previous calls, whose recurrent state it keeps; policy.reset() starts new episodes with any "
                "number of rows"
            )
        return self._memory.masked_fill(begins.view(rows, 1), 0.0)

    def _checked_mask(self, action_mask: npt.ArrayLike | Tensor, expected: tuple[int, ...]) -> Tensor:
        mask = self._tensor("an action_mask", action_mask).bool()
        if self._bounds is not None:
            raise ActionError(
                f"policy '{self.tag}': found an action_mask, but {self.action_space} has no discrete actions"
            )
        if tuple(mask.shape) != expected:
            raise ActionError(
                f"policy '{self.tag}': found an action_mask of shape {tuple(mask.shape)}, expected {expected}"
            )
        return mask.reshape(math.prod(expected[:-1]), expected[-1])

    def fitted(self, actions: Tensor, leading: torch.Size) -> Tensor:
        """Convert samples ``[rows, parts]`` to actions for the environment, with the leading axes ``leading``."""
        assert self.action_space.shape is not None
        actions = actions.reshape((*leading, *self.action_space.shape))
        if self._bounds is None:
            return actions
        low, high = self._bounds
        return torch.minimum(torch.maximum(actions, low), high).to(low.dtype)

    def export(self, path: str | Path, *, action_mask: bool = False) -> Path:
        """Write the policy to a file that does not need warpdrive, and check that its outputs are the same.

        The suffix selects the format: ``.onnx`` (ONNX, for onnxruntime and others), or ``.pt2``: the result of
        ``torch.export.load(path).module()`` takes observations, for a Dict space as one dict sorted by key, and the
        other inputs by name, and returns the outputs as a tuple. docs/guides/export.md has examples.

        Inputs, any number of rows ``[batch, ...]`` each: ``observations`` in the dtype of their space, or
        ``observations_<key>`` for each key of a Dict space, sorted; ``action_mask [batch, choices]`` bool, if
        requested; for recurrent policies ``state [batch, state_size]`` float32, zeros where an episode begins. Outputs:
        ``actions``, the most probable ones, as returned by :meth:`act`; ``logits [batch, n]`` float32, the model's
        outputs before masking; for recurrent policies ``next_state``. Observations of a policy with ``agent_ids`` end
        with the one-hot index of the agent.

        Args:
            path: The file.
            action_mask: If True, the file takes a mask of allowed choices.

        Returns:
            ``path``.

        Raises:
            ExportError: If the suffix is unknown, a mask is requested for actions in a Box, a package needed for ONNX
                is missing, or the outputs of the file differ from those of this policy.
        """
        from warpdrive.training.inference.export import export_policy

        return export_policy(self, path, action_mask)

    def __repr__(self) -> str:
        return f"TrainedPolicy('{self.tag}', {self.observation_space} -> {self.action_space})"


class SeparatePolicies(TrainedPolicy):
    """Policies of the agents of a tag with ``parameter_sharing: false``, which act together.

    Args:
        policies: Policy of each agent, in order.

    Attributes:
        policies: As given; other attributes are those of the first one.
    """

    def __init__(self, policies: Sequence[TrainedPolicy]) -> None:
        self.__dict__ |= vars(policies[0])
        self.policies, self.tag = list(policies), policies[0].tag.rpartition("_")[0]

    def reset(self) -> None:
        """See :meth:`TrainedPolicy.reset`."""
        for policy in self.policies:
            policy.reset()

    def act(
        self,
        observations: Any,
        deterministic: bool = False,
        action_mask: Any = None,
        episode_start: Any = None,
        agents: Any = None,
    ) -> Any:
        """Choose an action for each agent, see :meth:`TrainedPolicy.act`.

        Args:
            observations: ``[..., agents, *shape of an observation]``, of all agents in order, without ids.
            deterministic: If True, take the most probable actions instead of sampling.
            action_mask: ``[..., agents, choices]`` bool, or None.
            episode_start: ``[..., agents]`` bool, or None.
            agents: None: the policies are of all agents in order.

        Returns:
            Actions ``[..., agents, *shape of an action]``: a tensor if ``observations`` are a tensor, else an array.

        Raises:
            ActionError: If an argument has another shape, or observations are of a Dict space.
        """
        if isinstance(self.observation_space, spaces.Dict) or agents is not None:
            found = "observations by key" if agents is None else "agents"
            raise ActionError(f"policies of '{self.tag}': found {found}, expected an array of all agents' observations")
        seen = self._by_agent("observations", observations, len(self.observation_space.shape or ()))
        masks = self._by_agent("action_mask", action_mask, 1)
        starts = self._by_agent("episode_start", episode_start, 0)
        actions = [
            policy.act(own, deterministic, mask, start, agents=number if policy.num_ids else None)
            for number, (policy, own, mask, start) in enumerate(zip(self.policies, seen, masks, starts, strict=True))
        ]
        axis = actions[0].ndim - len(self.action_space.shape or ())
        return torch.stack(actions, axis) if isinstance(actions[0], Tensor) else np.stack(actions, axis)

    def _by_agent(self, name: str, given: Any, axes: int) -> list[Any]:
        """Return the part of each agent, whose axis is in front of the last ``axes`` ones."""
        count = len(self.policies)
        if given is None:
            return [None] * count
        array = given if isinstance(given, Tensor) else np.asarray(given)
        axis = array.ndim - 1 - axes
        if axis < 0 or array.shape[axis] != count:
            expected = ", ".join(["...", str(count), *["n"] * axes])
            raise ActionError(
                f"policies of '{self.tag}': found {name} of shape {tuple(array.shape)}, expected [{expected}] of all "
                f"{count} agents in order"
            )
        return list(array.unbind(axis) if isinstance(array, Tensor) else np.moveaxis(array, axis, 0))

    def export(self, path: str | Path, *, action_mask: bool = False) -> Path:
        """Raise ``ExportError``: each agent's policy is exported to a separate file."""
        names = ", ".join(policy.tag for policy in self.policies)
        raise ExportError(f"{path}: found the policies of several agents, expected the tag of one: {names}")


def load_policy(
    run_or_checkpoint: str | Path,
    tag: str | None = None,
    *,
    which: Which = "latest",
    device: str | torch.device = "cpu",
    seed: int | None = None,
    trust: bool = False,
) -> TrainedPolicy:
    """Load one policy of a run, to act without its environment.

    ```python
    policy = wd.load_policy("runs/cartpole")  # the latest run of that name
    action = policy.act(observation, deterministic=True)  # of one observation, or of any number of them
    ```

    Args:
        run_or_checkpoint: A run (its folder or name) or a checkpoint folder.
        tag: Policy tag; None: the only trained one. For agents that do not share parameters, the tag ``agent`` means
            all policies ``agent_0``, ``agent_1``, ...
        which: Checkpoint of a run: ``"latest"``, or ``"best"`` by the evaluations during training.
        device: Device of the policy, as named by PyTorch.
        seed: Seed of sampled actions; None: not reproducible.
        trust: If True, the file of a model named by the run may be executed even if it is not known here, see
            docs/project/security.md. No other code named by the run is needed to act.

    Returns:
        The policy.

    Raises:
        CheckpointError: If there is no checkpoint, it is damaged, or it has no such policy.
        TrustError: If the policy's model is code that is not known here.
    """
    if seed is not None:
        check_within(0, 1 << 63, seed=seed)
    place = found_device(device)
    folder = find_checkpoint(run_or_checkpoint, which)
    checkpoint = read_models(folder)
    config = config_of_checkpoint(checkpoint.config, folder)
    if separate := _separate(tag, config):
        options: dict[str, Any] = {"which": which, "device": device, "trust": trust}
        seeds = [None if seed is None else seed + number for number in range(len(separate))]
        parts = [load_policy(folder, name, seed=own, **options) for name, own in zip(separate, seeds, strict=True)]
        return SeparatePolicies(parts)
    tag = _chosen(tag, config, folder)
    settings = config.policy[tag]
    assert isinstance(settings, LearningConfig)
    if not trust:
        check_named_code({"policy": {tag: {"model": settings.model.model_dump()}}}, folder)
    if tag not in checkpoint.models:
        raise CheckpointError(f"{folder}: has no policy '{tag}', though its configuration does")
    described = checkpoint.spaces.get(tag, {})
    observation_space, action_space = (space_of(described.get(kind, {})) for kind in ("observation", "action"))
    try:
        with seeded(0):
            model = settings.build_model(observation_space, action_space)
        model.load_state_dict(dict(checkpoint.models[tag]))
        distribution = settings.acting_distribution(action_space)
    except (RuntimeError, ValueError, TypeError, AssertionError, KeyError) as error:
        description = f"{settings.algorithm} for {action_space}"
        raise CheckpointError(f"{folder}: the parameters of '{tag}' do not match a model of {description}") from error
    return TrainedPolicy(tag, model.to(place), observation_space, action_space, distribution, seed)


def found_device(name: str | torch.device) -> torch.device:
    """Return a device by its PyTorch name.

    Raises:
        ConfigError: If there is no such device on this machine.
    """
    try:
        check_is((str, torch.device), device=name)
        device = torch.device(name)
        torch.zeros(1, device=device).cpu()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ConfigError(f"device is {shown(name)}: {one_line(str(error).partition(chr(10))[0], 100)}") from None
    return device


def _separate(tag: str | None, config: RunConfig) -> list[str]:
    """Return the policy tags of agents that do not share parameters, if ``tag`` means several, or []."""
    trained = {name: part for name, part in config.policy.items() if isinstance(part, LearningConfig)}
    of_agents = [name for name, part in trained.items() if not part.parameter_sharing]
    if tag is None and len(of_agents) < len(trained):
        return []
    found = [name for name in of_agents if tag in (None, name.rpartition("_")[0])]
    return found if len({name.rpartition("_")[0] for name in found}) == 1 and tag not in trained else []


def _chosen(tag: str | None, config: RunConfig, folder: Path) -> str:
    trained = [name for name, settings in config.policy.items() if isinstance(settings, LearningConfig)]
    if tag in trained:
        return tag
    if tag is None and len(trained) == 1:
        return trained[0]
    names = ", ".join(f"'{name}'" for name in trained) or "none"
    if tag is None:
        how = "select one with --tag (in Python tag=...)"
        raise CheckpointError(f"{folder}: several policies were trained, {names}; {how}")
    if isinstance(tag, str) and tag in config.policy:
        how = config.policy[tag].description  # type: ignore[union-attr]
        raise CheckpointError(
            f"{folder}: the agents of '{tag}' act {how} and were not trained; trained policies: {names}"
        )
    raise CheckpointError(
        f"{folder}: unknown policy tag {shown(tag)}; trained policies: {names}.{nearest(str(tag), trained)}"
    )
