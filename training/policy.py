"""Policy of one policy tag: the model and the algorithm that trains it.

``algorithm.model`` acts in evaluations and is stored in checkpoints by name; ``algorithm.actor`` acts in rollouts. All
other state that a resumed run needs is in ``Policy.state_dict``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from gymnasium import Space
from torch import Tensor

from warpdrive.backends.interface import Backend
from warpdrive.observations import Observations, mapped
from warpdrive.rollout import Rollout, of_agents
from warpdrive.step_graph import StepGraphs, UseCudaGraph
from warpdrive.training.algorithms import build_algorithm
from warpdrive.training.algorithms.base import LearningConfig
from warpdrive.training.algorithms.task import Task, UpdateKind
from warpdrive.training.config.schedule import value_at
from warpdrive.training.config.schema import PolicyConfig
from warpdrive.training.distributed.process_group import UNSHARDED, Sharding
from warpdrive.training.experience.batch import Batch, Discount, RolloutBatcher
from warpdrive.training.experience.sequences import Replayed
from warpdrive.training.inference.pretrained import initialize_from_run
from warpdrive.training.models.base import Actor


class Policy:
    """Model that acts for the agents of a tag, its training algorithm and the source of its experience.

    Args:
        tag: Policy tag.
        policy_tags: Agent ids by policy tag.
        config: Section of the policy in the run configuration, of a learning algorithm.
        observation_spaces: Observation space of one agent, by policy tag.
        action_space: Action space of one agent.
        num_envs: Number of training replicas.
        backend: Backend on whose device the model is.
        seed: Seed of the initial parameters and of the order of minibatches.
        sharding: Distribution of the experience over processes.
        global_state: Number of elements of each global state array of the environment in a replica, by name.
        update: ``trainer.update`` of the run configuration.
        use_cuda_graph: ``trainer.use_cuda_graph`` of the run configuration.
    """

    def __init__(
        self,
        tag: str,
        policy_tags: Mapping[str, Sequence[int]],
        config: PolicyConfig,
        observation_spaces: Mapping[str, Space[Any]],
        action_space: Space[Any],
        num_envs: int,
        backend: Backend,
        seed: int,
        sharding: Sharding = UNSHARDED,
        global_state: Mapping[str, int] | None = None,
        update: UpdateKind = "auto",
        use_cuda_graph: UseCudaGraph = "off",
    ) -> None:
        assert isinstance(config, LearningConfig), "agents that learn nothing need no policy"
        self.tag, self.config, self.env_steps = tag, config, 0
        self._backend, device = backend, backend.device
        self.agent_ids = torch.tensor(list(policy_tags[tag]), dtype=torch.int32, device=device)
        use = "auto" if use_cuda_graph == "on" and device.type == "cpu" else use_cuda_graph  # rollouts may be elsewhere
        task = Task(
            tag,
            self.agent_ids,
            observation_spaces[tag],
            action_space,
            num_envs,
            backend,
            seed,
            replace(sharding, agents=len(policy_tags[tag])),
            observation_spaces,
            {name: len(ids) for name, ids in policy_tags.items()},
            global_state or {},
            load=lambda model: initialize_from_run(model, config, tag),
            update=update,
            graphs=StepGraphs(device, use, work=f"the update of '{tag}'"),
        )
        self.algorithm, self.experience = build_algorithm(config, task)
        acting = self.algorithm.actor if config.to_train else self.model
        self._actor = acting.in_replicas(num_envs, len(self.agent_ids))
        self.generator = torch.Generator(device).manual_seed(seed)
        self.algorithm.bind(self)

    @property
    def model(self) -> Actor:
        """Model that acts in evaluations."""
        return self.algorithm.model

    @property
    def actor(self) -> Actor:
        """Actor of the rollouts: the model, with exploration while it is trained."""
        return self._actor

    @property
    def learns_from_global_state(self) -> bool:
        """True if rollouts must record the environment's global state."""
        return self.config.to_train and self.algorithm.learns_from_global_state

    @property
    def off_policy(self) -> bool:
        """True if each process keeps the experience of all processes and learns from a part of it."""
        assert isinstance(self.config, LearningConfig)
        return self.config.off_policy

    def begin(self, env_steps: int) -> None:
        """Prepare for the rollout and the update that begin at ``env_steps``."""
        self.algorithm.begin(env_steps)
        self.env_steps = env_steps

    def coefficients(self) -> dict[str, float]:
        """Return the current learning rate and scheduled coefficients, by name."""
        noise = {name: value for name, value in getattr(self.config, "noise", ()) if isinstance(value, list | dict)}
        of_noise = {f"noise_{name}": value for name, value in noise.items()}
        present = {"learning_rate": self.config.lr, **self.config.schedules, **of_noise}
        present.pop("lr", None)
        return {name: value_at(schedule, self.env_steps) for name, schedule in present.items()}

    @property
    def lr(self) -> float:
        """Learning rate of the current update."""
        return value_at(self.config.lr, self.env_steps)

    @property
    def gamma(self) -> float:
        """Discount per step in the current update."""
        return value_at(self.config.gamma, self.env_steps)

    def update(self, rollout: Rollout) -> dict[str, Tensor]:
        """Train on a full rollout if ``to_train`` is set. Returns metrics as scalars on the device."""
        if not self.config.to_train:
            return {}
        losses = self.algorithm.update(self.experience.of(rollout), self.generator)
        self.model.observe(*_seen(rollout, self.tag))  # last, so that the update used the statistics of the rollout
        return losses

    def replay(self, rollout: Rollout) -> Replayed:
        """Recompute the model's outputs for a full rollout, with gradient.

        With unchanged weights the log-probabilities equal ``rollout.log_probabilities`` up to float32 rounding. A
        recurrent model starts from its recorded state, which is reset where an episode begins.

        Raises:
            TrainingError: If the algorithm learns from a replay buffer: its actor has no log-probabilities, or is not
                the trained model.
        """
        return self.algorithm.replay(rollout, self.tag)

    @torch.no_grad()
    def batch(self, rollout: Rollout, gae_lambda: float = 0.95, returns_after_leaving: bool = True) -> Batch:
        """Return a full rollout as rows with value estimates, advantages and returns.

        ``batch.minibatches(count, policy.generator)`` splits it into random minibatches; ``batch.masked_mean(x)`` is
        the mean over the rows of active agents. The discount is :attr:`gamma`.

        Args:
            rollout: The collected rollout.
            gae_lambda: GAE coefficient from 0 (one-step TD errors) to 1 (Monte Carlo returns).
            returns_after_leaving: If True, returns of an agent that has left extend to the end of the episode.

        Returns:
            The rows of this policy's agents.

        Raises:
            TrainingError: If the algorithm has no value function.
        """
        discount, algorithm = Discount(self.gamma, gae_lambda, returns_after_leaving), self.algorithm
        ours = self.tag, algorithm.value_function, self._backend, self.agent_ids
        return RolloutBatcher(*ours, lambda: discount, critic_input=algorithm.critic_input).of(rollout)

    def state_dict(self) -> dict[str, Any]:
        """Return the training state besides the model's parameters: tensors, numbers and dictionaries."""
        parts = {name: part.state_dict() for name, part in self.algorithm.parts().items()}
        return {
            "algorithm": parts,
            "experience": self.experience.state_dict(),
            "device": self.generator.device.type,
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state returned by ``state_dict()``."""
        for name, part in self.algorithm.parts().items():
            part.load_state_dict(state["algorithm"][name])
        self.experience.load_state_dict(state["experience"])
        if state["device"] == self.generator.device.type:  # generators of different device types are incompatible
            self.generator.set_state(state["generator"])


def _seen(rollout: Rollout, tag: str) -> tuple[Observations, Tensor]:
    """Return the observations before each step, and the weights of the rows: 1 where the agent was active."""
    observations = mapped(lambda seen: seen[:-1].flatten(0, 2), rollout.of("observations", tag))
    weight = torch.ones_like(rollout.rewards) if rollout.active is None else rollout.active.float()
    return observations, of_agents(weight, rollout.agents[tag], dim=2).flatten()
