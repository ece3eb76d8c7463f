"""Fusion of the library's and the user's kernel functions into one kernel per step.

The functions of ``sampler``, ``rollout_writer``, ``episode_log`` and ``resetter`` and those of the user are called in
the order of a step. The result is a ``Fusion`` (``kernels/fusion.py``), from which a backend generates the source that
it compiles; backends are independent of environments. An environment has three: the reset, a step with the caller's
actions, and a step that samples actions and records.

Arrays of the device context have the names of the kernel functions' parameters. The library's own contain a dot
(``episode.last_return``, ``sampler.logits_tagger``, ``rollout.rewards``) and so cannot collide with a user's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from warpdrive import episode_log, resetter, sampler
from warpdrive.adapted import adaptation_of
from warpdrive.backends.interface import Backend
from warpdrive.device_context import DeviceContext
from warpdrive.environment import Environment, KernelFunction
from warpdrive.fused_step import rollout_writer
from warpdrive.fused_step.binding import Binding
from warpdrive.kernels.errors import KernelError
from warpdrive.kernels.fusion import Barrier, Call, FusedStep, Fusion, When
from warpdrive.kernels.kernel import DeviceFunction
from warpdrive.spaces import SpaceArray, action_arrays, extended_arrays, observation_arrays

NEXT = "next."
"""Prefix of arrays with the start of a replica's next episode, if the host provides it."""
CONTINUED = "continued"
"""Mask ``[num_envs]`` of replicas whose next episode begins from the state in which the last one ended."""
SKIPPED = "skipped"
"""Mask ``[num_envs]`` of replicas in which the host began an episode instead of a step."""


class FusedKernel:
    """Builder of a fused kernel: adds calls one by one and binds their arguments.

    Arrays are named as in the device context. The kernel's parameters have the same names, with ``__`` in place of the
    dots in names of the library's own arrays.
    """

    def __init__(self, name: str, context: DeviceContext) -> None:
        self.name, self.context = _plain_name(name), context
        self.arguments: dict[str, Any] = {}
        self._names: dict[str, str] = {}  # of the arrays and values, by parameter
        self._all_steps: list[FusedStep] = []
        self._steps = self._all_steps  # the block that the next step is added to

    def call(self, function: DeviceFunction, result: str | None = None, **arrays: str) -> None:
        """Append a call of a library function.

        Args:
            function: The function.
            result: Name of a variable that is assigned the return value, or None.
            arrays: Name of the array for a parameter; by default that of the parameter.
        """
        arguments = [self._array(arrays.get(parameter, parameter)) for parameter in function.parameters]
        self._steps.append(Call(function, tuple(arguments), result))

    def call_user(self, kernel: KernelFunction | None, binding: Binding) -> None:
        """Call a kernel function of the environment, if defined, followed by a barrier."""
        if kernel is None:
            return
        for parameter in kernel.parameters:
            self._bind(parameter, binding.value(parameter))
        self._steps.append(Call(kernel, kernel.parameters))
        self.barrier()

    def barrier(self) -> None:
        """Add a barrier of the replica's threads."""
        self._steps.append(Barrier())

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Nest the steps added within the block under a condition: the result of an earlier call."""
        outer, self._steps = self._steps, []
        yield
        outer.append(When(condition, tuple(self._steps)))
        self._steps = outer

    @property
    def fusion(self) -> Fusion:
        """The kernel built so far."""
        return Fusion(self.name, tuple(self.arguments), tuple(self._all_steps))

    def bind(self, backend: Backend, threads: int) -> Callable[[], None]:
        """Compile the kernel and return a function that launches it for all replicas."""
        return backend.bind(self.fusion, self.arguments, self.context.num_envs, threads)

    def replicas_at_once(self, backend: Backend, threads: int) -> int:
        """Return the number of replicas that the backend's device runs concurrently."""
        return backend.replicas_at_once(self.fusion, self.arguments, self.context.num_envs, threads)

    def rows(self, name: str) -> str:
        """Return the name of an array viewed as rows: all axes from the agents' axis on are flattened."""
        tensor = self.context[name]
        leading = 2 if name.startswith("rollout.") else 1
        self._bind(f"{name}.rows", tensor.view(*tensor.shape[:leading], -1))
        return f"{name}.rows"

    def items(self, name: str) -> str:
        """Return the name of an array ``[num_envs, agents, ...]`` viewed with three axes."""
        tensor = self.context[name]
        self._bind(f"{name}.items", tensor.view(*tensor.shape[:2], -1))
        return f"{name}.items"

    def _array(self, name: str) -> str:
        known = self.arguments.get(parameter_of(name))
        return self._bind(name, self.context[name] if known is None else known)

    def _bind(self, name: str, argument: Any) -> str:
        """Bind an array or value to its parameter, and return the parameter."""
        parameter = parameter_of(name)
        if self._names.setdefault(parameter, name) != name:
            raise KernelError(
                f"kernel '{self.name}': '{parameter}' is the name of an array of the library, and of a parameter of "
                "the environment's kernel functions: rename the parameter"
            )
        self.arguments[parameter] = argument
        return parameter


def fuse_step(
    environment: Environment,
    binding: Binding,
    *,
    sampled: bool = False,
    drawn: bool = False,
    auto_reset: bool,
    global_state: Sequence[str] = (),
) -> FusedKernel:
    """Build the kernel of one step.

    Args:
        environment: The environment.
        binding: The binding of its kernels' parameters.
        sampled: If True, actions are sampled from the policy outputs, and the step is recorded into the arrays
            ``rollout.*``.
        drawn: If True, actions are uniformly random. If neither is True, they are given by the caller.
        auto_reset: If True, replicas whose episodes have ended are reset in the same step.
        global_state: The names of the arrays recorded as global state.

    Returns:
        The fused kernel.
    """
    fused = FusedKernel(f"{environment.name}_step", binding.context)
    _act(fused, environment, sampled, drawn)
    _advance(fused, binding)
    _end_step(fused, environment, binding, sampled, auto_reset, global_state)
    return fused


def fuse_actions(environment: Environment, binding: Binding, drawn: bool = False) -> FusedKernel:
    """Build the kernel that samples actions from the policy outputs without recording.

    It is followed by a step with given actions: in between, actions of human players replace some of the samples.

    Args:
        environment: The environment.
        binding: The binding of its kernels' parameters.
        drawn: If True, actions are uniformly random, whatever the policy outputs are.

    Returns:
        The fused kernel.
    """
    fused = FusedKernel(f"{environment.name}_actions", binding.context)
    if drawn:
        for array in action_arrays(environment):
            _draw(fused, environment, array)
    else:
        _sample(fused, environment)
    return fused


def fuse_drawing(environment: Environment, binding: Binding) -> FusedKernel:
    """Build the kernel that draws all replicas into the arrays ``shapes`` and ``things`` of the device context.

    Args:
        environment: The environment, which has a ``draw`` kernel.
        binding: The binding of its kernels' parameters.

    Returns:
        The fused kernel.
    """
    fused = FusedKernel(f"{environment.name}_draw", binding.context)
    fused.call_user(environment.draw, binding)
    if environment.draw_things is not None:
        fused.call_user(environment.draw_things, binding)
    return fused


def fuse_host_step(
    environment: Environment,
    binding: Binding,
    *,
    sampled: bool = False,
    drawn: bool = False,
    auto_reset: bool,
    global_state: Sequence[str] = (),
) -> tuple[FusedKernel, FusedKernel]:
    """Build the two kernels of a step that is taken on the host in between.

    The first provides the actions. Then the host writes the results of the step into the arrays of the environment and,
    for replicas whose episodes have ended, the start of the next episode into arrays with the prefix ``next.``. The
    second records them, and copies the latter. See :func:`fuse_step` for the arguments.

    Returns:
        Both kernels.
    """
    acting = FusedKernel(f"{environment.name}_act", binding.context)
    _act(acting, environment, sampled, drawn)
    ending = FusedKernel(f"{environment.name}_end_step", binding.context)
    if SKIPPED in binding.context:
        ending.call(episode_log.uncount_step, skipped=SKIPPED)
    _end_step(ending, environment, binding, sampled, auto_reset, global_state)
    return acting, ending


def fuse_running_step(environment: Environment, binding: Binding, auto_reset: bool) -> FusedKernel:
    """Build the kernel of one step with given actions that only steps replicas whose episode has not ended.

    Args:
        environment: The environment.
        binding: The binding of its kernels' parameters.
        auto_reset: If True, the other replicas start a new episode; otherwise they remain unchanged.

    Returns:
        The fused kernel.
    """
    fused = FusedKernel(f"{environment.name}_running_step", binding.context)
    fused.call(episode_log.is_running, result="running")
    if auto_reset:
        fused.call(episode_log.is_done, result="ended")
    fused.barrier()
    with fused.when("running"):
        _begin_step(fused)
        _advance(fused, binding)
        _add_rewards(fused)
        fused.call(episode_log.is_done, result="done")
        with fused.when("done"):
            _end_episode(fused)
    if auto_reset:
        with fused.when("ended"):
            fused.call(episode_log.begin_step)
            _choose_start(fused)
            _restart(fused, binding)
    return fused


def fuse_reset(environment: Environment, binding: Binding, selected: bool = False) -> FusedKernel:
    """Build the kernel that starts a new episode in every replica, or in those for which ``reset.selected`` is True."""
    fused = FusedKernel(f"{environment.name}_reset", binding.context)
    if not selected:
        if CONTINUED in binding.context:
            fused.call(resetter.clear_continued)
        _choose_start(fused)
        _restart(fused, binding)
        return fused
    fused.call(episode_log.is_done, result="chosen", terminated="reset.selected", truncated="reset.selected")
    with fused.when("chosen"):
        fused.call(episode_log.begin_step)
        if CONTINUED in binding.context:
            fused.call(resetter.clear_continued)
        _choose_start(fused)
        _restart(fused, binding)
    return fused


def _begin_step(fused: FusedKernel) -> None:
    if "active" in fused.context:
        fused.call(episode_log.note_acting, acted="episode.acted")
    fused.call(episode_log.begin_step)
    if CONTINUED in fused.context:
        fused.call(resetter.clear_continued)
    fused.barrier()


def _act(fused: FusedKernel, environment: Environment, sampled: bool, drawn: bool) -> None:
    """Provide the actions of a step, record them and the policy outputs, and begin the step."""
    context = fused.context
    if drawn:
        for array in action_arrays(environment):
            _draw(fused, environment, array)
    if sampled:
        _sample(fused, environment)
        _record(fused, rollout_writer.record_per_agent, "sampler.log_probabilities", "log_probabilities")
        for name in ("active", "action_mask"):
            if name in context:
                _record(fused, rollout_writer.record_row, name)
    _begin_step(fused)
    if sampled:
        for array in action_arrays(environment):
            acted = array.name if array.choices else f"sampler.{array.name}"
            _record(fused, rollout_writer.record_row, acted, array.name)


def _end_step(
    fused: FusedKernel,
    environment: Environment,
    binding: Binding,
    sampled: bool,
    auto_reset: bool,
    global_state: Sequence[str],
) -> None:
    """Record the results of a step, and reset the replicas whose episodes have ended."""
    context, observations = fused.context, observation_arrays(environment)
    _add_rewards(fused)
    if sampled:
        if adaptation_of(environment).team_rewards:
            if "active" in context:
                fused.barrier()  # of the cleared rewards
            fused.call(
                rollout_writer.record_team_reward,
                team="constant.team.number",
                share="constant.team.share",
                record="rollout.rewards",
                slot="rollout.step",
            )
        else:
            _record(fused, rollout_writer.record_per_agent, "rewards")
        for name in ("terminated", "truncated"):
            _record(fused, rollout_writer.record_per_env, name)
        if "active" in context:
            _record(fused, rollout_writer.record_row, "active", "still_active")
        fused.call(
            rollout_writer.note_final_slot,
            final_slot="rollout.final_slot",
            final_count="rollout.final_count",
            final=f"rollout.final_{observations[0].name}",
            slot="rollout.step",
        )
    fused.call(episode_log.is_done, result="done")
    with fused.when("done"):
        _end_episode(fused)
        if auto_reset:
            fused.barrier()
            _choose_start(fused)
            for array in observations:
                _keep_final(fused, array.name, sampled)
            if sampled and "action_mask" in context:
                _keep_final(fused, "action_mask", sampled)
            for name in global_state:
                _keep_final(fused, name, sampled, f"global_state.{name}")
            _restart(fused, binding)
    if sampled:
        for array in observations:
            _record(fused, rollout_writer.record_next_row, array.name)
        for name in global_state:
            _record(fused, rollout_writer.record_next_row, name, f"global_state.{name}")


def _advance(fused: FusedKernel, binding: Binding) -> None:
    fused.call_user(binding.functions.step, binding)
    _observe(fused, binding)
    fused.call(episode_log.end_step, episode_length="constant.episode_length")
    fused.barrier()


def _add_rewards(fused: FusedKernel) -> None:
    if "active" in fused.context:
        fused.call(episode_log.clear_absent_rewards, acted="episode.acted")
    fused.call(episode_log.add_rewards, running_return="episode.running_return")


def _choose_start(fused: FusedKernel) -> None:
    fused.call(resetter.choose_start, choice="reset.choice", stream="reset.stream", pool_size="reset.pool_size")


def _draw(fused: FusedKernel, environment: Environment, array: SpaceArray) -> None:
    rows, rng = f"constant.rows_of_{array.name}", "sampler.rng"
    tag = next(tag for tag, agents in environment.policy_tags.items() if set(agents) <= set(array.agents))
    choices = f"constant.num_choices_{tag}"  # shared by all tags of the array
    if not array.choices:
        low, high = f"constant.low_{array.name}", f"constant.high_{array.name}"
        fused.call(
            sampler.draw_continuous, actions=fused.rows(array.name), rng=rng, action_rows=rows, low=low, high=high
        )
    elif "action_mask" in fused.context:
        actions = fused.rows(array.name)
        fused.call(sampler.draw_allowed, actions=actions, rng=rng, action_rows=rows, num_choices=choices)
    elif len(array.shape) > 1 or array.path:
        actions = fused.rows(array.name)
        fused.call(sampler.draw_multi_discrete, actions=actions, rng=rng, action_rows=rows, num_choices=choices)
    else:
        fused.call(sampler.draw_discrete, actions=array.name, logits=f"sampler.logits_{tag}", rng=rng)


def _sample(fused: FusedKernel, environment: Environment) -> None:
    for array in action_arrays(environment):
        for tag, agents in environment.policy_tags.items():
            if set(agents) <= set(array.agents):
                sample = _sample_discrete if array.choices else _sample_continuous
                sample(fused, array, tag)


def _sample_discrete(fused: FusedKernel, array: SpaceArray, tag: str) -> None:
    logits = f"sampler.logits_{tag}"
    if "action_mask" in fused.context:
        masked = f"sampler.masked_logits_{tag}"
        fused.call(sampler.mask_logits, logits=logits, masked_logits=masked, rows=f"constant.rows_{tag}")
        logits = masked
    fused.call(
        sampler.sample_discrete if len(array.shape) == 1 else sampler.sample_multi_discrete,
        actions=array.name,
        num_choices=f"constant.num_choices_{tag}",
        **_sampler_arrays(array, tag, logits),
    )


def _sample_continuous(fused: FusedKernel, array: SpaceArray, tag: str) -> None:
    fused.call(
        sampler.sample_gaussian,
        actions=fused.rows(array.name),
        sampled=fused.rows(f"sampler.{array.name}"),
        low=f"constant.low_{array.name}",
        high=f"constant.high_{array.name}",
        squash=f"sampler.squash_{tag}",
        normalize=f"sampler.normalize_{tag}",
        **_sampler_arrays(array, tag, f"sampler.logits_{tag}"),
    )


def _sampler_arrays(array: SpaceArray, tag: str, logits: str) -> dict[str, str]:
    return {
        "logits": logits,
        "log_probability": "sampler.log_probabilities",
        "greedy": "sampler.greedy",
        "rng": "sampler.rng",
        "rows": f"constant.rows_{tag}",
        "action_rows": f"constant.rows_of_{array.name}",
    }


def _record(fused: FusedKernel, function: DeviceFunction, name: str, as_name: str | None = None) -> None:
    by_row = function in (rollout_writer.record_row, rollout_writer.record_next_row)
    source, record = (fused.rows(n) if by_row else n for n in (name, f"rollout.{as_name or name}"))
    fused.call(function, source=source, record=record, slot="rollout.step")


def _end_episode(fused: FusedKernel) -> None:
    names = ("running_return", "last_return", "last_length", "return_sum", "length_sum", "episodes", "terminations")
    fused.call(episode_log.log_episode, choice="reset.choice", **{name: f"episode.{name}" for name in names})


def _keep_final(fused: FusedKernel, name: str, recorded: bool, as_name: str | None = None) -> None:
    source = fused.rows(name)
    if recorded:
        fused.call(
            rollout_writer.record_final_row,
            source=source,
            record=fused.rows(f"rollout.final_{as_name or name}"),
            final_slot="rollout.final_slot",
            slot="rollout.step",
        )
    else:
        fused.call(rollout_writer.copy_row, source=source, target=fused.rows(f"final_{name}"))


def _restart(fused: FusedKernel, binding: Binding) -> None:
    fused.barrier()
    if CONTINUED in binding.context:
        fused.call(resetter.begins_anew, result="anew")
        with fused.when("anew"):
            _copy_start(fused, binding)
    else:
        _copy_start(fused, binding)
    fused.call(resetter.start_episode, running_return="episode.running_return")
    fused.barrier()
    fused.call_user(binding.functions.reset, binding)
    _observe(fused, binding)


def _copy_start(fused: FusedKernel, binding: Binding) -> None:
    for name in binding.context:
        if name.startswith("pool."):
            target = name.removeprefix("pool.")
            fused.call(resetter.copy_start, target=fused.rows(target), pool=name, choice="reset.choice")
        elif name.startswith(NEXT):
            fused.call(rollout_writer.copy_row, source=fused.rows(name), target=fused.rows(name.removeprefix(NEXT)))


def _observe(fused: FusedKernel, binding: Binding) -> None:
    """Call the environment's ``observe``, and extend the observations of an adapted environment."""
    fused.call_user(binding.functions.observe, binding)
    for target, source in (pairs := extended_arrays(binding.environment)):
        fused.call(
            rollout_writer.extend_observation,
            source=fused.items(source.name),
            target=fused.items(target.name),
            source_rows=f"constant.rows_of_{source.name}",
            target_rows=f"constant.rows_of_{target.name}",
            place="constant.team.place",
        )
    if pairs:
        fused.barrier()


def _plain_name(name: str) -> str:
    """Return a valid identifier for an environment's name, such as ``2048`` or ``CartPole-v1``."""
    plain = re.sub(r"\W", "_", name)
    return f"_{plain}" if plain[0].isdigit() else plain


def parameter_of(name: str) -> str:
    """Return the parameter of fused kernels for an array of the device context."""
    return name.replace(".", "__")
