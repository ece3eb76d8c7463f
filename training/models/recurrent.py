"""Recurrent models.

A recurrent actor-critic consists of three functions: encode observations, advance the state, and compute logits and
values from it. ``forward_sequence`` thus does all but the second for all steps of a sequence at once. The model is
independent of replicas: ``RecurrentActor`` holds the state of each agent in a buffer at a fixed address, which is reset
where ``timestep == 0`` and while the agent is inactive. CUDA graphs, evaluations, replays and checkpoints
(``kept_between_steps``) therefore need no code for recurrent models.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from gymnasium import Space
from torch import Tensor, nn

from warpdrive.observations import Observations
from warpdrive.training.models.base import Actor, ActorCritic
from warpdrive.training.models.flatten import Flatten
from warpdrive.training.models.options import Initialization, RecurrentConfig
from warpdrive.training.models.perceptron import Perceptron, hidden_layers, initialise, perceptron, runs_natively
from warpdrive.training.models.two_headed import LogStd, with_log_std

if TYPE_CHECKING:
    from warpdrive.env_wrapper import EnvWrapper


class RecurrentActorCritic(ActorCritic):
    """Policy and value function of a recurrent state that is updated by every observation.

    A subclass implements three parts, so that computations independent of the state are done for all steps at once. It
    may also replace ``advance_sequence``, if there is more to do at once.
    """

    @abstractmethod
    def encode(self, observations: Observations) -> Tensor:
        """Return the inputs of the recurrence, for all steps of a sequence at once.

        Args:
            observations: ``[..., *observation_shape]`` of any dtype; a dict by key for a Dict space.

        Returns:
            Features ``[..., features]``.
        """

    @abstractmethod
    def advance(self, features: Tensor, state: Tensor) -> Tensor:
        """Return the next state.

        Args:
            features: ``[n, features]``, see :meth:`encode`.
            state: ``[n, state_size]`` float32; zero where an episode begins.

        Returns:
            The state ``[n, state_size]`` after the step.
        """

    @abstractmethod
    def heads(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return the outputs of states.

        Args:
            state: ``[..., state_size]``, states after :meth:`advance`.

        Returns:
            Logits ``[..., num_logits]``, and values ``[...]``.
        """

    def advance_sequence(self, features: Tensor, state: Tensor, begins: Tensor) -> Tensor:
        """Return the states after each step of sequences. By default it calls :meth:`advance` step by step.

        Args:
            features: ``[T, n, features]``, in time order.
            state: ``[n, state_size]``, the state before the first step.
            begins: ``[T, n]`` bool, True where the state is reset to zero because an episode begins.

        Returns:
            States ``[T, n, state_size]``.
        """
        return states_after(self.advance, features, state, begins)

    def forward_sequence(
        self, observations: Observations, state: Tensor, begins: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See ``ActorCritic``."""
        after = self.advance_sequence(self.encode(observations), state, begins)
        return *self.heads(after), after

    def step(self, observations: Observations, state: Tensor) -> tuple[Tensor, Tensor]:
        """See ``Actor``."""
        features = self.encode(observations)
        leading = features.shape[:-1]
        after = self.advance(features.reshape(-1, features.shape[-1]), state.reshape(-1, self.state_size))
        after = after.reshape(*leading, self.state_size)
        return self.heads(after)[0], after

    def forward(self, observations: Observations) -> tuple[Tensor, Tensor]:
        """Return logits ``[..., num_logits]`` and values ``[...]`` of first observations of episodes."""
        features = self.encode(observations)
        rows = features.reshape(-1, features.shape[-1])
        state = self.advance(rows, rows.new_zeros(len(rows), self.state_size))
        return self.heads(state.reshape(*features.shape[:-1], self.state_size))

    def logits(self, observations: Observations) -> Tensor:
        """See ``Actor``: observations are taken for the first of episodes."""
        return self.forward(observations)[0]

    def values(self, observations: Observations) -> Tensor:
        """See ``ActorCritic``: observations are taken for the first of episodes."""
        return self.forward(observations)[1]

    def in_replicas(self, num_envs: int, num_agents: int) -> Actor:
        """See ``Actor``."""
        return RecurrentActor(self, num_envs, num_agents)


def states_after(
    advance: Callable[[Tensor, Tensor], Tensor], features: Tensor, state: Tensor, begins: Tensor
) -> Tensor:
    """Return the recurrent states ``[T, n, state_size]`` after each step of sequences.

    Args:
        advance: Computes the next state ``[n, state_size]`` from features and a state.
        features: ``[T, n, features]``.
        state: ``[n, state_size]``, before the first step.
        begins: ``[T, n]`` bool, True where the state is reset to zero before the step.

    Returns:
        ``[T, n, state_size]``.
    """
    states = []
    for seen, begin in zip(features, begins.unsqueeze(-1), strict=True):
        state = advance(seen, state.masked_fill(begin, 0.0))
        states.append(state)
    return torch.stack(states)


class RecurrentActor(Actor):
    """Recurrent model with its state in a set of replicas.

    The state of an agent is zero where an episode begins, and while the agent is inactive.

    Args:
        model: The acting model.
        num_envs: Number of replicas.
        num_agents: Number of agents per replica.

    Attributes:
        kept: See ``Actor.kept_between_steps``.
    """

    kept = ("state",)
    state: Tensor

    def __init__(self, model: Actor, num_envs: int, num_agents: int) -> None:
        super().__init__()
        self.model, self.state_size, self.action_units = model, model.state_size, model.action_units
        like = next(model.parameters())
        self.register_buffer("state", like.new_zeros(num_envs, num_agents, model.state_size), persistent=False)

    def logits(self, observations: Observations) -> Tensor:
        """See ``Actor``."""
        return self.model.logits(observations)

    def memory(self) -> Tensor | None:
        """See ``Actor``."""
        return self.state

    def act(self, env: EnvWrapper, tag: str) -> None:
        """See ``Actor``."""
        logits, state = self.model.step_in(env, tag, reset_at_begin(self.state, env))
        env.logits(tag).copy_(logits)
        active = env.active(tag)
        self.state.copy_(state if active is None else state.masked_fill(~active.unsqueeze(-1), 0.0))


def reset_at_begin(state: Tensor, env: EnvWrapper) -> Tensor:
    """Return ``state [num_envs, agents, state_size]``, reset to zero in replicas whose episode begins."""
    return state.masked_fill((env.ctx["timestep"] == 0).view(-1, 1, 1), 0.0)


class Recurrent(RecurrentActorCritic):
    """Perceptron, recurrent units, and one linear layer each for the policy and the value function.

    GRU: Cho et al. 2014, arXiv:1406.1078, in the version of ``torch.nn.GRUCell``. LSTM: Hochreiter & Schmidhuber 1997
    with forget gates (Gers et al. 2000), whose biases are initialised to 1. MinGRU: Feng et al. 2024, arXiv:2410.01201,
    whose gates do not depend on the state. With separate trunks the state is that of the policy's units, followed by
    that of the value function's; each is the hidden state and, for an LSTM, the cell state.

    Args:
        observation_space: Observation space of one agent; observations are flattened, and values of a Dict
            concatenated.
        num_outputs: Number of outputs of the policy.
        options: Section of the model in the run configuration.
        num_log_stds: Number of logarithms of standard deviations, for actions in a Box.

    Attributes:
        std_is_constant: True if standard deviations do not depend on observations, or there are none.
    """

    def __init__(
        self, observation_space: Space[Any], num_outputs: int, options: RecurrentConfig, num_log_stds: int = 0
    ) -> None:
        super().__init__()
        trunks = 1 if options.trunk == "shared" else 2
        self.units, cell, log_std = options.units, CELLS[options.type], LogStd.of(options, num_log_stds)
        self.flatten = Flatten(observation_space, options.scale_observations, options.normalize_observations)
        sizes = [self.flatten.size, *options.hidden]
        self.encoders = nn.ModuleList(Perceptron(*hidden_layers(sizes, options)) for _ in range(trunks))
        self.cells = nn.ModuleList(cell(sizes[-1], self.units, options.initialization) for _ in range(trunks))
        self.features, self.state_size = sizes[-1], trunks * cell.numbers * self.units
        self.policy = perceptron([self.units, num_outputs + log_std.num_outputs], options, last_gain=0.01)
        self.value = perceptron([self.units, 1], options, last_gain=1.0)
        self.log_std, self._num_means = log_std.parameter(), log_std.count
        self.std_is_constant = not log_std.depends_on_state

    def encode(self, observations: Observations) -> Tensor:
        """See ``RecurrentActorCritic``: the concatenated features of the trunks."""
        flat = self.flatten(observations)
        return _side_by_side([encoder(flat) for encoder in self.encoders])

    def advance(self, features: Tensor, state: Tensor) -> Tensor:
        """See ``RecurrentActorCritic``."""
        parts = zip(self.cells, features.split(self.features, -1), self._by_trunk(state), strict=True)
        return _side_by_side([cell(seen, before) for cell, seen, before in parts])

    def advance_sequence(self, features: Tensor, state: Tensor, begins: Tensor) -> Tensor:
        """See ``RecurrentActorCritic``."""
        parts = zip(self.cells, features.split(self.features, -1), self._by_trunk(state), strict=True)
        return _side_by_side([cell.sequence(seen, before, begins) for cell, seen, before in parts])  # type: ignore

    def heads(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """See ``RecurrentActorCritic``."""
        trunks = self._by_trunk(state)
        of_policy, of_value = (trunks[which][..., : self.units] for which in (0, -1))
        return with_log_std(self.policy(of_policy), self.log_std, self._num_means), self.value(of_value).squeeze(-1)

    def _by_trunk(self, state: Tensor) -> tuple[Tensor, ...]:
        return state.chunk(len(self.cells), dim=-1)


def _side_by_side(of_trunks: list[Tensor]) -> Tensor:
    return torch.cat(of_trunks, dim=-1) if len(of_trunks) > 1 else of_trunks[0]


class Cell(nn.Module):
    """Recurrent units.

    Attributes:
        kind: Key of :data:`CELLS`.
        numbers: Elements of the state per unit.
        native: Native code of the units on the CPU, a function of the arguments of ``sequence`` and of parameters, or
            None; copies share it.
    """

    kind: ClassVar[str]
    hidden_size: int
    numbers = 1
    native: Callable[[Tensor, Tensor, Tensor, Sequence[Tensor]], Tensor] | None = None

    @abstractmethod
    def advance(self, inputs: Tensor, state: Tensor) -> Tensor:
        """Return the next state ``[n, state_size]`` from ``[n, inputs]`` and ``[n, state_size]``."""

    def advance_sequence(self, inputs: Tensor, state: Tensor, begins: Tensor) -> Tensor:
        """Return the states after each step of sequences, see :func:`states_after`."""
        return states_after(self.advance, inputs, state, begins)

    def forward(self, inputs: Tensor, state: Tensor) -> Tensor:
        """Return :meth:`advance`, computed by native code if available."""
        if self.native is None or not runs_natively(inputs):
            return self.advance(inputs, state)
        going_on = torch.zeros(1, len(inputs), dtype=torch.bool)
        return self.native(inputs.unsqueeze(0), state, going_on, self._tensors())[0]

    def sequence(self, inputs: Tensor, state: Tensor, begins: Tensor) -> Tensor:
        """Return :meth:`advance_sequence`, computed by native code if available."""
        if self.native is None or not runs_natively(inputs):
            return self.advance_sequence(inputs, state, begins)
        return self.native(inputs, state, begins, self._tensors())

    def _tensors(self) -> list[Tensor]:
        return [own for own in self._parameters.values() if own is not None]  # faster than parameters()


class _GRU(Cell, nn.GRUCell):  # type: ignore[misc]
    """GRU cell whose state is the hidden state, ``[n, units]``."""

    kind = "gru"

    def __init__(self, inputs: int, units: int, initialization: Initialization) -> None:
        super().__init__(inputs, units)
        _initialise_gates(self, initialization)

    def advance(self, inputs: Tensor, state: Tensor) -> Tensor:
        """See ``Cell``."""
        return nn.GRUCell.forward(self, inputs, state)


class _LSTM(Cell, nn.LSTMCell):  # type: ignore[misc]
    """LSTM cell whose state is the hidden state and the cell state, ``[n, 2 * units]``."""

    kind, numbers = "lstm", 2

    def __init__(self, inputs: int, units: int, initialization: Initialization) -> None:
        super().__init__(inputs, units)
        _initialise_gates(self, initialization)
        with torch.no_grad():
            self.bias_ih[units : 2 * units].fill_(1.0)  # the gates' order: input, forget, cell, output

    def advance(self, inputs: Tensor, state: Tensor) -> Tensor:
        """See ``Cell``."""
        outputs, cells = state.chunk(2, dim=-1)
        return torch.cat(nn.LSTMCell.forward(self, inputs, (outputs, cells)), dim=-1)


class _MinGRU(Cell, nn.Linear):  # type: ignore[misc]
    """MinGRU cell: ``h = (1 - z) * h + z * g``, with gate ``z`` and positive candidate ``g`` of the inputs alone.

    Its state ``[n, units]`` is a linear recurrence, which ``linear_recurrence`` computes for all steps at once.
    """

    kind = "mingru"

    def __init__(self, inputs: int, units: int, initialization: Initialization) -> None:
        super().__init__(inputs, 2 * units)
        self.hidden_size = units
        _initialise_gates(self, initialization)

    def advance(self, inputs: Tensor, state: Tensor) -> Tensor:
        """See ``Cell``."""
        decay, gain = self._gates(inputs)
        return decay * state + gain

    def advance_sequence(self, inputs: Tensor, state: Tensor, begins: Tensor) -> Tensor:
        """See ``Cell``."""
        decay, gain = self._gates(inputs)
        return linear_recurrence(decay.masked_fill(begins.unsqueeze(-1), 0.0), gain, state)

    def _gates(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        gate, candidate = nn.Linear.forward(self, inputs).chunk(2, dim=-1)
        positive = torch.where(candidate >= 0.0, candidate + 0.5, candidate.sigmoid())  # appendix B.1 of the paper
        return (-gate).sigmoid(), gate.sigmoid() * positive


def linear_recurrence(decay: Tensor, gain: Tensor, state: Tensor) -> Tensor:
    """Return all states of the recurrence ``state = decay[t] * state + gain[t]``, in log2(T) parallel steps.

    It is a scan over the affine maps of the steps (Hillis & Steele 1986). Unlike a scan of logarithms, it allows for
    decays of 0, which reset the state.

    Args:
        decay: ``[T, ...]``, from 0 to 1.
        gain: ``[T, ...]``.
        state: ``[...]``, before the first step.

    Returns:
        States ``[T, ...]`` after each step.
    """
    span = 1
    while span < len(decay):  # decay and gain of each step are those of the last ``span`` steps together
        gain = torch.cat([gain[:span], torch.addcmul(gain[span:], decay[span:], gain[:-span])])
        decay = torch.cat([decay[:span], decay[span:] * decay[:-span]])
        span *= 2
    return torch.addcmul(gain, decay, state)


CELLS: dict[str, type[_GRU] | type[_LSTM] | type[_MinGRU]] = {cell.kind: cell for cell in (_GRU, _LSTM, _MinGRU)}


def _initialise_gates(cell: nn.GRUCell | nn.LSTMCell | _MinGRU, initialization: Initialization) -> None:
    for name, parameter in cell.named_parameters():
        if name.startswith("bias"):
            nn.init.zeros_(parameter)
        else:
            for gate in parameter.data.split(cell.hidden_size):
                initialise(gate, 1.0, initialization)
