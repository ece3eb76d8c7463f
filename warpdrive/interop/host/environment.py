"""Environments of other libraries as definitions of environments."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv

from warpdrive.environment import Environment, State
from warpdrive.errors import DefinitionError, nearest, shown
from warpdrive.interop.host.gymnasium import EnvPoolSource, GymnasiumSource, VectorSource
from warpdrive.interop.host.pettingzoo import PettingZooSource
from warpdrive.interop.host.source import FRAME, STATE, HostSource
from warpdrive.interop.host.workers import WorkerType
from warpdrive.kernels.kernel import kernel
from warpdrive.used_code import note_used
from warpdrive.user_code import user_code

if TYPE_CHECKING:
    from warpdrive.figures import Frame

LONGEST = 2**31 - 1


@kernel
def _step_on_host(truncated):  # type: ignore[no-untyped-def]
    """Stand in for a step that is not a kernel; an episode may be truncated at any time."""
    truncated[0] = truncated[0]


class HostEnvironment(Environment):
    """Environment of another library, which :class:`warpdrive.HostEnv` steps on the host.

    Args:
        source: The description of the environment.
        workers: The number of processes or threads that step the replicas; 0 for none but the caller.
        worker_type: ``"process"``, or ``"thread"`` for environments that release the global interpreter lock.
        episode_length: The number of steps after which episodes are truncated; None for the environment's own limit
            or, if it has none, 10,000. Vectorised environments have their own.

    Attributes:
        source: The description of the environment.
        agents: The names of the agents.

    Raises:
        DefinitionError: If an argument is invalid.
    """

    step, steps_on_host = _step_on_host, True
    termination_meaning = "the episode terminated"

    def __init__(
        self, source: HostSource, workers: int = 0, worker_type: str = "process", episode_length: int | None = None
    ) -> None:
        if type(workers) is not int or not 0 <= workers <= 4096:
            raise DefinitionError(f"workers: found {shown(workers)}, expected an integer from 0 to 4096")
        if worker_type not in get_args(WorkerType):
            kinds = get_args(WorkerType)
            raise DefinitionError(
                f"worker_type: found {shown(worker_type)}, expected one of {', '.join(kinds)}."
                f"{nearest(str(worker_type), kinds)}"
            )
        self.source, self.workers, self.worker_type = source, workers, worker_type
        self.name = source.name  # type: ignore[misc]  # a class variable of other environments
        self.agents = list(source.agents)
        self.num_agents = len(self.agents)
        self.policy_tags = dict(source.policy_tags)
        self.episode_length = int(episode_length or source.episode_length or LONGEST)
        self.observation_space, self.action_space = source.observation_space, source.action_space
        self.global_state = () if source.state_shape is None else (STATE,)

    @property
    def can_render(self) -> bool:
        """True if there are pictures of the environment: it has the render mode ``rgb_array``."""
        return self.source.can_render

    def with_frames(self) -> HostEnvironment:
        """Return the same environment with a picture in its state, ``frame``, or without one if that fails."""
        source = self.source
        if self.can_render:
            try:
                source = source.with_frames()
            except DefinitionError as error:
                warnings.warn(f"{error}; episodes are recorded without pictures", RuntimeWarning, stacklevel=2)
        return HostEnvironment(source, episode_length=self.episode_length)

    def initial_state(self, rng: np.random.Generator) -> State:
        """Return the arrays other than observations; the host writes their values."""
        state: State = {}
        if self.source.leaves:
            state["active"] = np.ones(self.num_agents, np.bool_)
        if self.source.has_action_mask:
            spaces = [conversion.space for conversion in self.source.actions.values()]
            choices = max(int(getattr(space, "n", 0) or np.sum(getattr(space, "nvec", 0))) for space in spaces)
            state["action_mask"] = np.ones((self.num_agents, choices), np.bool_)
        if self.source.state_shape is not None:
            state[STATE] = np.zeros(self.source.state_shape, np.float32)
        if self.source.frame_shape is not None:
            state[FRAME] = np.zeros(self.source.frame_shape, np.uint8)
        return state

    def render(self, state: State, trail: Sequence[State] = ()) -> Frame:
        """Return the picture that the environment rendered."""
        if FRAME not in state:
            raise DefinitionError(
                f"the environment '{self.name}' has no pictures: create it with render_mode='rgb_array'"
            )
        frame: Frame = state[FRAME]
        return frame


class GymnasiumEnvironment(HostEnvironment):
    """Environment of Gymnasium, by its id: ``env: {gymnasium: "LunarLander-v3"}`` in a run configuration.

    Args:
        id: The id; ``"package:Name-v0"`` imports the package that registers it.
        vectorization: ``"sync"``, ``"async"``, ``"vector_entry_point"`` or ``"auto"``, as in ``gymnasium.make_vec``.
        workers: The number of processes or threads that step the replicas; 0 for none but the training process.
        worker_type: ``"process"``, or ``"thread"`` for environments that release the global interpreter lock.
        episode_length: The number of steps after which episodes are truncated; None for the environment's own limit.
        kwargs: The keyword arguments of ``gymnasium.make``.
    """

    def __init__(
        self,
        id: str,
        vectorization: str = "auto",
        workers: int = 0,
        worker_type: str = "process",
        episode_length: int | None = None,
        **kwargs: Any,
    ) -> None:
        _check_id("gymnasium", id)
        super().__init__(
            GymnasiumSource(id, vectorization, kwargs, episode_length), workers, worker_type, episode_length
        )
        note_used(id)


class PettingZooEnvironment(HostEnvironment):
    """Parallel environment of PettingZoo, by its module: ``env: {pettingzoo: "mpe2.simple_spread_v3"}``.

    Args:
        id: The module, ``"module:function"``, or an id of PettingZoo's registry, ``"butterfly/pistonball-v6"``.
        policy_tags: Names of agents by policy tag; None to group agents by name and spaces.
        workers: The number of processes or threads that step the replicas; 0 for none but the training process.
        worker_type: ``"process"``, or ``"thread"`` for environments that release the global interpreter lock.
        episode_length: The number of steps after which episodes are truncated; None for the environment's own limit.
        kwargs: The keyword arguments of the environment.
    """

    def __init__(
        self,
        id: str,
        policy_tags: Mapping[str, Sequence[str]] | None = None,
        workers: int = 0,
        worker_type: str = "process",
        episode_length: int | None = None,
        **kwargs: Any,
    ) -> None:
        _check_id("pettingzoo", id)
        super().__init__(
            PettingZooSource(id, policy_tags, kwargs, episode_length), workers, worker_type, episode_length
        )
        note_used(id if ":" in id else f"{id}:parallel_env")


class EnvPoolEnvironment(HostEnvironment):
    """Task of EnvPool: ``env: {envpool: "Pong-v5"}``.

    Args:
        id: The id of the task.
        episode_length: The maximum number of steps of an episode, if the task does not report it.
        kwargs: The keyword arguments of ``envpool.make``, such as ``num_threads``.
    """

    def __init__(self, id: str, episode_length: int | None = None, **kwargs: Any) -> None:
        _check_id("envpool", id)
        super().__init__(EnvPoolSource(id, kwargs), episode_length=episode_length)


class WarpDrive2Environment(HostEnvironment):
    """Environment of WarpDrive 2, by its class: ``env: {warpdrive2: "my_game:MyGame", kernels: "my_game_kernels"}``.

    Args:
        id: ``"package.module:Class"``.
        kernels: The module of its Numba kernels; None for those of its examples and of registered environments.
        policy_tags: Ids of agents by policy tag, or the name of an attribute that holds them, as in
            ``{tagger: taggers}``; None for one tag, ``"shared"``.
        create_separate_placeholders_for_each_policy: True if the kernel has arrays for each policy tag.
        obs_dim_corresponding_to_num_agents: Position of the agents in the observations: ``"first"`` or ``"last"``.
        kwargs: The arguments of the class.
    """

    def __init__(
        self,
        id: str,
        kernels: str | None = None,
        policy_tags: Mapping[str, Sequence[int] | str] | None = None,
        create_separate_placeholders_for_each_policy: bool = False,
        obs_dim_corresponding_to_num_agents: str = "first",
        **kwargs: Any,
    ) -> None:
        from warpdrive.interop.host.warpdrive2 import WarpDrive2Source

        _check_id("warpdrive2", id)
        options = (create_separate_placeholders_for_each_policy, obs_dim_corresponding_to_num_agents)
        super().__init__(WarpDrive2Source(id, kernels, policy_tags, *options, kwargs))
        note_used(id)
        if kernels is not None:
            note_used(f"{kernels}:kernels")


def host_environment(given: Any, **options: Any) -> HostEnvironment:
    """Return the definition of another library's environment.

    Args:
        given: An environment of Gymnasium (single or vectorised), a Parallel one of PettingZoo, or a function that
            returns one. A function that takes ``num_envs`` returns a vectorised one.
        options: ``workers``, ``worker_type``, ``episode_length``; for PettingZoo also ``policy_tags``, for Gymnasium
            ``vectorization``; and keyword arguments of the function.

    Raises:
        DefinitionError: If it is no such environment.
    """
    common = {key: options.pop(key) for key in ("workers", "worker_type", "episode_length") if key in options}
    if isinstance(given, HostEnvironment):
        return given
    title = f"HostEnv: {getattr(given, '__qualname__', type(given).__name__)}"
    if isinstance(given, VectorEnv):
        return HostEnvironment(VectorSource(given, given.spec.id if given.spec else title, given), **common)
    example = given
    if callable(given) and not isinstance(given, gymnasium.Env):
        example = _example(given, title, options)
    if isinstance(example, VectorEnv):
        make: Callable[[int], Any] = lambda num_envs: given(num_envs=num_envs, **options)  # noqa: E731
        found: HostSource = VectorSource(make, example.spec.id if example.spec else title, example)
    elif isinstance(example, gymnasium.Env):
        found = GymnasiumSource(given, options.pop("vectorization", "auto"), options, common.get("episode_length"))
    elif hasattr(example, "observation_space") and hasattr(example, "possible_agents"):
        found = PettingZooSource(given, options.pop("policy_tags", None), options, common.get("episode_length"))
    else:
        raise DefinitionError(
            f"{title}: found {shown(example)}, expected a gymnasium.Env, a gymnasium.vector.VectorEnv or a "
            "pettingzoo.ParallelEnv, or a function that returns one"
        )
    if example is not given:
        example.close()
    return HostEnvironment(found, **common)


def _example(make: Callable[..., Any], title: str, options: Mapping[str, Any]) -> Any:
    with user_code(title):
        own = {key: value for key, value in options.items() if key not in ("vectorization", "policy_tags")}
        vectorized = "num_envs" in inspect.signature(make).parameters
        return make(num_envs=1, **own) if vectorized else make(**own)


def _check_id(library: str, identifier: object) -> None:
    if not isinstance(identifier, str) or not identifier:
        raise DefinitionError(f"env.{library}: found {shown(identifier)}, expected the name of an environment")
