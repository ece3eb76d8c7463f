"""Base class of VDN and QMIX: action values of agents are mixed into the value of the joint action.

Agents act epsilon-greedily by their own values. The mixed value of their actions is trained by temporal differences of
the team reward, on sequences of a replay buffer.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch
from gymnasium import Space, spaces
from pydantic import BeforeValidator, Field
from torch import Tensor, nn

from warpdrive.environment import Environment
from warpdrive.observations import mapped
from warpdrive.training.algorithms.base import Algorithm, EveryN, ReturnsConfig, Stateful, UpdateSize
from warpdrive.training.algorithms.common import at, means, set_learning_rate, soft_update, target_network, value_error
from warpdrive.training.algorithms.pqn import team_returns
from warpdrive.training.algorithms.task import Task, adam
from warpdrive.training.config.messages import Problem
from warpdrive.training.config.values import Count, FractionSchedule, PositiveSchedule, whole_number
from warpdrive.training.experience.team_sequences import SequenceBuffer, TeamSequences
from warpdrive.training.experience.transitions import or_final
from warpdrive.training.models.critic_inputs import SharedInput
from warpdrive.training.models.distributions import masked
from warpdrive.training.models.mixers import Mixer
from warpdrive.training.models.options import TEAM_VALUE_CONFIGS, TeamModelConfig, UnitsConfig
from warpdrive.training.models.q_network import QNetwork, RecurrentQNetwork
from warpdrive.training.models.running_moments import RunningMoments
from warpdrive.training.rollout.exploration import EpsilonGreedy


class ValueDecompositionConfig(ReturnsConfig):
    """Keys of the value decomposition algorithms."""

    actions = "Discrete"
    model_sections = TEAM_VALUE_CONFIGS
    model: TeamModelConfig = UnitsConfig(type="gru", activation="relu")
    """Model of the agents' action values."""
    buffer_size: Count = 5000
    """Capacity of the replay buffer in sequences. A sequence is the rollout of one replica."""
    learning_starts: Annotated[int, BeforeValidator(whole_number), Field(ge=0, lt=2**63)] = 1000
    """Environment steps before the first gradient step."""
    batch_size: Count = 32
    """Sequences per gradient step, sampled uniformly from the replay buffer."""
    gradient_steps: Count = 1
    """Gradient steps per update, that is, per rollout of ``trainer.train_batch_size`` environment steps."""
    max_grad_norm: PositiveSchedule = 10.0
    """Maximum norm of a gradient; larger gradients are scaled down to it."""
    epsilon: FractionSchedule = [[0, 1.0], [50_000, 0.05]]  # type: ignore[assignment]
    """Probability of a random action, by environment steps."""
    double: bool = True
    """If True, the model selects the actions that the target network evaluates (double Q-learning)."""
    td_lambda: FractionSchedule = 0.0
    """Lambda of the returns: 0 for one-step targets, 1 for returns up to the end of the sequence or episode."""
    tau: FractionSchedule = 1.0
    """Interpolation factor of a target network update: 1 copies the model."""
    target_update_every: Count = 200
    """Gradient steps between two target network updates."""
    bootstrap_truncated: bool = True
    """If True, returns of truncated episodes are bootstrapped with the final value; if False they end, as in PyMARL."""
    normalize_rewards: bool = False
    """If True, team rewards are standardised by their running mean and variance over all rollouts so far."""
    value_loss: Literal["mse", "huber"] = "mse"
    """Loss: ``mse``: half the squared temporal difference; ``huber``: the same, but linear beyond ``huber_delta``."""
    huber_delta: PositiveSchedule = 1.0
    """Threshold of the Huber loss."""

    @property
    def off_policy(self) -> bool:
        """See ``LearningConfig``."""
        return True

    def problems(self, size: UpdateSize, env: Environment) -> list[Problem]:
        """See ``LearningConfig``."""
        found = []
        if not self.parameter_sharing:
            text = "found false, expected true: the agents of a team are trained together; agent_ids tells them apart"
            found.append(("parameter_sharing", text))
        if self.batch_size > self.buffer_size:
            text = f"found {self.batch_size}, expected at most buffer_size ({self.buffer_size})"
            found.append(("batch_size", text))
        if self.buffer_size < size.num_envs:
            text = f"found {self.buffer_size}, expected at least {size.num_envs}, the sequences of one update"
            found.append(("buffer_size", text))
        return found

    def build_model(self, observation_space: Space[Any], action_space: Space[Any]) -> QNetwork:
        """See ``LearningConfig``."""
        assert isinstance(action_space, spaces.Discrete), "the configuration is checked for this"
        if isinstance(self.model, UnitsConfig):
            return RecurrentQNetwork(observation_space, int(action_space.n), self.model)
        return QNetwork(observation_space, int(action_space.n), self.model)


class ValueDecomposition(Algorithm[SequenceBuffer]):
    """Q-learning of mixed action values.

    Args:
        config: Section of the policy in the run configuration.
        model: Action-value network of each agent.
        mixer: Mixes the values of the agents.
        optimizer: Optimizer of both.
        mixer_input: Computes the inputs of the mixer; None: it has none.

    Attributes:
        config: The section with the current value in place of each schedule.
        rewards: Running mean and standard deviation of the team's rewards.
    """

    parts_observe_all = True  # the newest sequences in the buffer, which are those of all processes
    config: ValueDecompositionConfig
    actor: EpsilonGreedy
    model: QNetwork

    def __init__(
        self,
        config: ValueDecompositionConfig,
        model: QNetwork,
        mixer: Mixer,
        optimizer: torch.optim.Optimizer,
        mixer_input: SharedInput | None = None,
    ) -> None:
        self.schedules, self.model, self.mixer, self.optimizer = config, model, mixer, optimizer
        self.mixer_input, self.trained = mixer_input, nn.ModuleList([model, mixer])
        self.target_model, self.target_mixer = target_network(model), target_network(mixer)
        device = next(model.parameters()).device
        self.actor = EpsilonGreedy(model).to(device)
        self.rewards = RunningMoments().to(device)
        self._target_is_due = EveryN(config.target_update_every)
        self.begin(env_steps=0)

    def parts(self) -> dict[str, Stateful]:
        """See ``Algorithm``."""
        return {
            "optimizer": self.optimizer,
            "mixer": self.mixer,
            "target_model": self.target_model,
            "target_mixer": self.target_mixer,
            "target_is_due": self._target_is_due,
            "rewards": self.rewards,
        }

    def begin(self, env_steps: int) -> None:
        """See ``Algorithm``."""
        self.config = at(self.schedules, env_steps)
        self.actor.epsilon.fill_(self.config.epsilon)
        set_learning_rate(self.optimizer, self.config.lr)

    @property
    def learns_from_global_state(self) -> bool:
        """See ``Algorithm``."""
        return self.mixer_input is not None and self.mixer_input.uses_global_state

    def update(self, experience: SequenceBuffer, generator: torch.Generator) -> dict[str, Tensor]:
        """Take gradient steps on sequences sampled with ``generator``, after ``learning_starts``.

        Returns scalars on the device: means over the gradient steps.
        """
        observes_states = getattr(self.mixer, "moments", None) is not None
        newest = experience.newest if self.config.normalize_rewards or observes_states else None
        if newest is not None and self.config.normalize_rewards:
            self.rewards.observe(newest.rewards.flatten(), newest.weight)
        history = []
        if experience.env_steps >= self.config.learning_starts:
            for _ in range(self.config.gradient_steps):
                history.append(self.step(experience.sample(self.config.batch_size, generator)))
        if newest is not None and newest.states is not None:  # last, as the statistics of observations
            self.mixer.observe(newest.states.flatten(0, 1), newest.weight)
        return means(history)

    def step(self, batch: TeamSequences) -> dict[str, Tensor]:
        """Take a gradient step, and update the target networks if they are due. Returns scalars on the device."""
        metrics = self.take_gradient_step(batch)
        if self._target_is_due():
            soft_update(self.target_model, self.model, self.config.tau)
            soft_update(self.target_mixer, self.mixer, self.config.tau)
        return metrics

    def loss(self, batch: TeamSequences) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss to minimise, of the temporal differences, and its terms without gradient."""
        values, states = unrolled(self.model, batch)
        chosen = values[:-1].gather(-1, batch.actions.long().unsqueeze(-1)).squeeze(-1)
        mixed = self.mixer(_present(chosen, batch.active), batch.states)
        with torch.no_grad():
            targets = self.targets(batch, values.detach(), states.detach())
        loss = batch.masked_mean(value_error(mixed - targets, self.config).flatten())
        return loss, {"td_loss": loss.detach(), "q_values": batch.masked_mean(mixed.detach().flatten())}

    @torch.no_grad()
    def targets(self, batch: TeamSequences, values: Tensor, states: Tensor) -> Tensor:
        """Return the targets ``[T, B]`` of the mixed values.

        Args:
            batch: Sequences.
            values: ``[T + 1, B, A, choices]``, action values of the model.
            states: ``[T + 1, B, A, state_size]``, its recurrent states.

        Returns:
            Lambda-returns of the team's rewards and of the target network's value of the best joint action.
        """
        following = following_values(self.target_model, batch, *unrolled(self.target_model, batch))
        judged = following_values(self.model, batch, values, states) if self.config.double else following
        if batch.next_action_mask is not None:
            judged = masked(judged, batch.next_action_mask[..., : judged.shape[-1]])
        best = following.gather(-1, judged.argmax(-1, keepdim=True)).squeeze(-1)
        mixed: Tensor = self.target_mixer(_present(best, batch.still_active), batch.next_states)
        mixed = mixed.where(~(batch.terminal if self.config.bootstrap_truncated else batch.ended), 0.0)
        rewards = self.rewards(batch.rewards) if self.config.normalize_rewards else batch.rewards
        if self.schedules.td_lambda == 0.0 and batch.still_active is None:
            return rewards + self.config.gamma * mixed
        return team_returns(
            rewards=rewards,
            next_values=mixed,
            ended=batch.ended,
            still_active=batch.still_active,
            gamma=self.config.gamma,
            td_lambda=torch.zeros_like(mixed) + self.config.td_lambda,
            returns_after_leaving=self.config.returns_after_leaving,
        )


def unrolled(network: QNetwork, batch: TeamSequences) -> tuple[Tensor, Tensor]:
    """Return action values ``[T + 1, B, A, choices]`` and the recurrent states ``[T + 1, B, A, n]`` after each step."""
    teams = batch.begins.shape[1:]
    seen = mapped(lambda rows: rows.flatten(1, 2), batch.observations)
    values, states = network.forward_sequence(seen, batch.start.flatten(0, 1), batch.begins.flatten(1, 2))
    return values.unflatten(1, teams), states.unflatten(1, teams)


@torch.no_grad()
def following_values(network: QNetwork, batch: TeamSequences, values: Tensor, states: Tensor) -> Tensor:
    """Return the action values after each step, of the same episode.

    Args:
        network: Action-value network.
        batch: Sequences of ``T`` steps of ``B`` teams.
        values: ``[T + 1, B, A, choices]``, its values, see :func:`unrolled`.
        states: ``[T + 1, B, A, n]``, its recurrent states.

    Returns:
        ``[T, B, A, choices]``; where an episode was truncated, the values of its final observations.
    """
    final = batch.final_observations
    slots, teams = len(next(iter(final.values())) if isinstance(final, dict) else final), batch.begins.shape[1:]
    order, team = (torch.arange(count, device=states.device) for count in batch.final_slot.shape)
    is_end = batch.final_slot == torch.arange(slots, device=states.device).view(-1, 1, 1)
    ends = states[(is_end * order.unsqueeze(-1)).amax(1), team]  # after each truncated step, [slots, B, A, n]
    seen = mapped(lambda rows: rows.flatten(0, 2).unsqueeze(0), final)
    going_on = batch.begins.new_zeros(1, slots * teams.numel())
    found, _ = network.forward_sequence(seen, ends.flatten(0, 2), going_on)
    return or_final(values[1:], found.view(slots, *teams, -1), batch.final_slot)


def _present(values: Tensor, active: Tensor | None) -> Tensor:
    return values if active is None else values.where(active, 0.0)


def sequence_buffer(algorithm: ValueDecomposition, task: Task) -> SequenceBuffer:
    """Return the replay buffer of ``algorithm``."""
    config = algorithm.schedules
    task.check_batch_size(config.batch_size)
    return SequenceBuffer(
        task.tag,
        config.buffer_size,
        task.device,
        config.returns_after_leaving,
        config.team_reward != "own",
        algorithm.mixer_input,
        task.sharding.process_group,
    )


def build_with(
    config: ValueDecompositionConfig, task: Task, mixer: Mixer, mixer_input: SharedInput | None = None
) -> tuple[ValueDecomposition, SequenceBuffer]:
    """Build the algorithm with a mixer, which is on the device already, and its source of experience."""
    model = task.new_model(config)
    algorithm = ValueDecomposition(config, model, mixer, adam(nn.ModuleList([model, mixer])), mixer_input)
    return algorithm, sequence_buffer(algorithm, task)
