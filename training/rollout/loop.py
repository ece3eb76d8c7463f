"""Rollout collection on the device: policies act and the environment steps without host synchronisation.

On the CPU, native code takes all steps of a rollout in one call if it supports the models (``compiled/rollout.py``).

In each step the policies read the current observations and write the sampler's logits, and one launch samples, steps
and records into slot ``rollout.step``, an index on the device. A step thus depends on no values on the host, and is the
same work at the same addresses every time: it is captured as a CUDA graph. It is captured anew if a model or the
address of a parameter changes. ``act`` sets the units of continuous actions before each step, as actors of several
kinds may act in turn in one environment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from gymnasium import spaces

from warpdrive.env_wrapper import EnvWrapper
from warpdrive.rollout import Rollout
from warpdrive.step_graph import StepGraphs
from warpdrive.training.models.base import Actor
from warpdrive.training.models.recurrent import reset_at_begin

NativeRollout = Callable[[EnvWrapper, Rollout, Mapping[str, Actor]], Callable[[], None] | None]


def act(env: EnvWrapper, actors: Mapping[str, Actor]) -> None:
    """Write the policies' logits of the current observations to where the next step samples from.

    The logits of tags without an actor are unchanged: uniformly random in a new EnvWrapper.
    """
    for tag, actor in actors.items():
        if isinstance(env.action_spaces[tag], spaces.Box):
            env.squash(tag).fill_(actor.action_units == "squashed")
            env.normalize(tag).fill_(actor.action_units == "half_range")
        actor.act(env, tag)


def in_replicas_of(env: EnvWrapper, models: Mapping[str, Actor]) -> dict[str, Actor]:
    """Return the actors of ``env`` by policy tag: the models, with storage for their recurrent state."""
    return {tag: model.in_replicas(env.num_envs, len(env.policy_tags[tag])) for tag, model in models.items()}


class RolloutLoop:
    """Repeats one step of a rollout, which reads and writes only fixed device addresses.

    Args:
        env: The replicas.
        rollout: Rollout of ``env``.
        graphs: Captures the step as a CUDA graph if possible.
        after_step: Device work after each step, at fixed addresses; part of the step.
        native: Returns a function that takes all steps in one call, or None; None: steps are taken one by one.
    """

    def __init__(
        self,
        env: EnvWrapper,
        rollout: Rollout,
        graphs: StepGraphs,
        after_step: Callable[[], None] | None = None,
        native: NativeRollout | None = None,
    ) -> None:
        self.env, self.rollout, self.graphs, self.after_step, self.native = env, rollout, graphs, after_step, native
        self._prepared_for: object = None
        self._steps: Callable[[], None]

    @torch.no_grad()
    def prepare(self, actors: Mapping[str, Actor]) -> None:
        """Compile or capture the steps, unless that is done for these actors and the addresses of their parameters.

        The environment is not changed; ``after_step`` may be called a few times.
        """
        wanted = {tag: (actor, actor.training, _addresses(actor)) for tag, actor in actors.items()}
        if wanted != self._prepared_for:
            native = None if self.native is None else self.native(self.env, self.rollout, actors)
            self._steps = native or self._one_by_one(actors)
            self._prepared_for = wanted

    def _one_by_one(self, actors: Mapping[str, Actor]) -> Callable[[], None]:
        def one() -> None:
            act(self.env, actors)
            self.env.step_rollout(self.rollout)
            if self.after_step is not None:
                self.after_step()

        step = self.graphs.repeatable(one, lambda: self._save(actors))

        def steps() -> None:
            for _ in range(self.rollout.num_steps):
                step()

        return steps

    @torch.no_grad()
    def fill(self, actors: Mapping[str, Actor]) -> None:
        """Collect a whole rollout with the current values of the parameters."""
        self.prepare(actors)
        self.rollout.begin()
        memories = {tag: memory for tag, actor in actors.items() if (memory := actor.memory()) is not None}
        self.rollout.memory = {tag: reset_at_begin(memory, self.env) for tag, memory in memories.items()}
        self._steps()
        self.rollout.clear_absent()
        self.rollout.steps_recorded = self.rollout.num_steps  # replayed steps do not update it

    def mark_full(self, actors: Mapping[str, Actor]) -> None:
        """Mark the rollout as full without stepping the replicas."""
        self.rollout.memory = {tag: memory for tag, actor in actors.items() if (memory := actor.memory()) is not None}
        self.rollout.steps_recorded = self.rollout.num_steps

    def _save(self, actors: Mapping[str, Actor]) -> Callable[[], None]:
        state = self.env.ctx.save_state()
        kept = [(buffer, buffer.clone()) for actor in actors.values() for buffer in actor.buffers()]

        def restore() -> None:
            self.env.ctx.load_state(state)
            for buffer, former in kept:
                buffer.copy_(former)
            self.rollout.begin()

        return restore


def _addresses(actor: Actor) -> tuple[int, ...]:
    return tuple(tensor.data_ptr() for tensor in (*actor.parameters(), *actor.buffers()))
