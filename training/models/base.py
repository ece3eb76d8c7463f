"""Interface of models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor, nn

from warpdrive.observations import Observations, mapped
from warpdrive.training.models.flatten import Flatten

if TYPE_CHECKING:
    from warpdrive.env_wrapper import EnvWrapper


Units = Literal["box", "half_range", "squashed"]
"""Units of means and standard deviations of actions in a Box: those of the Box; half its range, relative to its
centre; or values that the hyperbolic tangent squashes to it.
"""


def observations_of(env: EnvWrapper, tag: str) -> Observations:
    """Return the current observations of the agents of a tag, zero for those out of the episode, as in rollouts.

    ``[num_envs, agents of the tag, *observation_shape]``, by key for a Dict observation space.
    """
    active = env.active(tag)
    seen: Observations = env.observations(tag)
    if active is None:
        return seen
    return mapped(lambda rows: rows.masked_fill(~active.view(*active.shape, *[1] * (rows.dim() - 2)), 0), seen)


class Actor(nn.Module, ABC):
    """Module that acts for the agents of a policy tag.

    Attributes:
        state_size: Number of elements of the recurrent state per agent.
        action_units: Units of the outputs for actions in a Box.
    """

    state_size: int = 0
    action_units: Units = "box"

    @abstractmethod
    def logits(self, observations: Observations) -> Tensor:
        """Return the outputs of the policy, from which actions are sampled.

        Args:
            observations: ``[..., *observation_shape]`` of any dtype; a dict by key for a Dict space. A recurrent model
                takes them for the first observations of an episode.

        Returns:
            Logits ``[..., num_logits]`` float32. Discrete: one for each choice. MultiDiscrete: those of all components,
            concatenated. Box with n components: n means, then n logarithms of standard deviations.
        """

    def step(self, observations: Observations, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits of observations and the next recurrent state.

        Args:
            observations: See :meth:`logits`.
            state: ``[..., state_size]`` float32, the recurrent state: zero where an episode begins.

        Returns:
            Logits ``[..., num_logits]``, and the next state ``[..., state_size]``.
        """
        return self.logits(observations), state

    def step_in(self, env: EnvWrapper, tag: str, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits of the current observations of the agents of ``tag`` and the next state; see :meth:`step`.

        Args:
            env: Environment to observe.
            tag: Policy tag.
            state: ``[num_envs, agents of the tag, state_size]`` float32.

        Returns:
            Logits and next recurrent state.
        """
        return self.step(observations_of(env, tag), state)

    def in_replicas(self, num_envs: int, num_agents: int) -> Actor:
        """Return the actor for a number of replicas and agents: itself, unless it needs state there."""
        return self

    def memory(self) -> Tensor | None:
        """Return the recurrent state ``[num_envs, agents of the tag, state_size]`` in replicas; None if it has none."""
        return None

    def act(self, env: EnvWrapper, tag: str) -> None:
        """Write the logits of the current observations of ``tag`` to ``env.logits(tag)``.

        Called before each step. It reads and writes fixed device addresses; state between steps is in buffers.

        Args:
            env: Replicas to act in.
            tag: Policy tag.
        """
        env.logits(tag).copy_(self.logits(observations_of(env, tag)))

    def kept_between_steps(self) -> dict[str, Tensor]:
        """Return the state kept between steps, ``[num_envs, ...]`` by name: buffers that its modules list in ``kept``.

        These buffers are not persistent, as they belong to the replicas, not to the model.
        """
        return {
            f"{module}.{name}" if module else name: part.get_buffer(name)
            for module, part in self.named_modules()
            for name in getattr(part, "kept", ())
        }

    def observe(self, observations: Observations, weight: Tensor) -> None:
        """Update running statistics with a rollout after training on it.

        Args:
            observations: ``[rows, *observation_shape]``, observations before each step.
            weight: ``[rows]`` float32, 1 where the agent was in the episode, else 0.
        """
        for part in self.modules():
            if isinstance(part, Flatten):
                part.observe(observations, weight)


class ActorCritic(Actor):
    """Policy and value function of the same observations: base class of user-defined feed-forward models.

    A subclass defines :meth:`logits` and :meth:`values`, for any number of leading axes. Its constructor takes the
    observation space of one agent, the number of logits, and the other keys of the section ``model``:

    ```python
    class TwoLayers(wd.ActorCritic):
        def __init__(self, observation_space, num_logits, width: int = 32):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(observation_space.shape[0], width), nn.Tanh())
            self.policy, self.value = nn.Linear(width, num_logits), nn.Linear(width, 1)

        def logits(self, observations):  # [..., *observation_shape] -> [..., num_logits]
            return self.policy(self.body(observations.float()))

        def values(self, observations):  # [..., *observation_shape] -> [...]
            return self.value(self.body(observations.float())).squeeze(-1)
    ```
    """

    @abstractmethod
    def values(self, observations: Observations) -> Tensor:
        """Return the value estimates of observations.

        Args:
            observations: ``[..., *observation_shape]`` of any dtype; a dict by key for a Dict space.

        Returns:
            Estimated returns ``[...]`` float32.
        """

    def forward(self, observations: Observations) -> tuple[Tensor, Tensor]:
        """Return logits ``[..., num_logits]`` and values ``[...]``."""
        return self.logits(observations), self.values(observations)

    def forward_sequence(
        self, observations: Observations, state: Tensor, begins: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return logits, values and recurrent states of sequences.

        Args:
            observations: ``[T, n, *observation_shape]``, in time order.
            state: ``[n, state_size]``, recurrent state before the first step.
            begins: ``[T, n]`` bool, True where the state is reset to zero because an episode begins with this
                observation.

        Returns:
            Logits ``[T, n, num_logits]``, values ``[T, n]``, and states ``[T, n, state_size]`` after each step.
        """
        return *self.forward(observations), state.expand(*begins.shape, -1)

    def through(self, observations: Observations, state: Tensor, begins: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return :meth:`forward_sequence`, under its former name."""
        return self.forward_sequence(observations, state, begins)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "through" in vars(cls) and "forward_sequence" not in vars(cls):  # a model written for the former name
            cls.forward_sequence = cls.through  # type: ignore[method-assign]
