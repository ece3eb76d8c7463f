"""Base class of environments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from warpdrive.errors import DefinitionError, shown
from warpdrive.kernels.cuda_kernel import CudaKernel
from warpdrive.kernels.errors import KernelError
from warpdrive.kernels.kernel import Kernel
from warpdrive.scene.scene import Scene
from warpdrive.user_code import user_code

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from warpdrive.figures import Frame

State = dict[str, npt.NDArray[Any]]
KernelFunction = Kernel | CudaKernel

_LARGEST_INT32 = np.iinfo(np.int32).max


class Environment:
    """Base class of multi-agent environments: constants, start states, and kernel functions.

    A subclass sets ``name`` and ``step`` (and optionally ``observe`` and ``reset``) to kernels, and in its constructor
    the attributes below. Parameters of kernels are bound by name to reserved arrays (``actions``, ``rewards``, ...; the
    guide "Writing environments" lists them), the arrays returned by :meth:`initial_state`, and attributes of the
    instance. Kernels are Python functions (``wd.kernel``), optionally with CUDA C twins (``wd.cuda_kernel``), or CUDA C
    alone.

    ```python
    @wd.kernel
    def step(position, actions, rewards, observations, goal):
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        position[env, agent] += 2 * actions[env, agent] - 1
        rewards[env, agent] = 1 if position[env, agent] == goal else 0
        observations[env, agent, 0] = position[env, agent]

    class Walk(wd.Environment):
        name, step = "walk", step
        num_agents, episode_length, goal = 2, 100, 5
        policy_tags = {"walker": [0, 1]}
        observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
        action_space = spaces.Discrete(2)

        def initial_state(self, rng):
            return {"position": np.zeros(2, np.int32), "observations": np.zeros((2, 1), np.float32)}
    ```
    """

    name: ClassVar[str]
    """The name of the environment in the registry, in run folders and in messages."""
    step: KernelFunction
    """The kernel that advances one replica by one step."""
    observe: KernelFunction | None = None
    """The kernel that writes the observations of a state, if ``step`` does not."""
    reset: KernelFunction | None = None
    """The kernel that modifies a start state after it was copied from the pool, for randomisation on the device."""
    draw: Kernel | None = None
    """The kernel that draws the agents of a state, see :mod:`warpdrive.draw`; always a Python function."""
    shapes_per_agent: int = 1
    """The number of shapes that each agent draws."""
    draw_things: Kernel | None = None
    """The kernel that draws movable objects, behind the agents and their trails: it writes ``things``, an array like
    ``shapes``. Unlike :meth:`scenery` it also runs in pages of ``warpdrive web``."""
    things_per_agent: int = 1
    """The number of objects that the thread of each agent draws."""
    view: tuple[float, float, float, float]
    """The visible part of the world: minimum x, maximum x, minimum y, maximum y."""
    cuda_twins: ClassVar[Mapping[str, CudaKernel]] = {}
    """CUDA C versions of the kernels, by the names of the Python functions, for the backend that runs CUDA C."""
    check_parameters: ClassVar[Mapping[str, Any]] = {}
    """Constructor parameters of a small instance, with which ``warpdrive check`` interprets kernels by default."""
    original_names: ClassVar[Mapping[str, str]] = {}
    """Constructor parameters by their names in the original of a port, for messages about unknown parameters:
    ``{"max_cycles": "episode_length"}``, or a sentence for a parameter without equivalent."""
    termination_meaning: ClassVar[str] = "the episode terminated"
    """Description of the meaning of termination, for printed results: ``"the runner was caught"``."""
    turn_based: ClassVar[bool] = False
    """True for turn-based games, in which inactive agents wait for their turn: they have not left the episode."""
    steps_on_host: ClassVar[bool] = False
    """True for environments of other libraries, which :class:`warpdrive.HostEnv` steps."""
    controls: Mapping[str, Any] = {}
    """Actions of human players in pages of ``warpdrive web``, by key, or a dict of these for each policy tag.

    A key is ``"left"``, ``"right"``, ``"up"``, ``"down"``, ``"space"``, ``"enter"``, a letter or a digit; several at
    once are joined by ``"+"``, and ``""`` is none; with ``"": None`` the game waits for a key if the agent is active,
    and each press is one action. The action is an integer for Discrete, and a dict from component to value for
    MultiDiscrete and Box, in which the values of all pressed keys are added. Components that no key sets are 0.
    """
    parity: ClassVar[Mapping[str, Any]] = {}
    """Settings of ``wd.testing.check_parity``: the arguments of :class:`warpdrive.testing.Parity` by name."""
    state_checks: Mapping[str, Callable[[npt.NDArray[Any]], None]] = {}
    """Functions that validate the arrays of saved states, by name.

    ``ctx.load_state`` calls each with the array's rows, ``[replicas, *shape]``; it raises :class:`DefinitionError` if
    the kernels cannot continue from these values, for example those of another game.
    """
    global_state: Sequence[str] = ()
    """The names of the arrays that form the global state for a centralised critic; policies do not observe it.

    These can be arrays of :meth:`initial_state`, reserved ones such as ``timestep``, or per-replica constants.
    """

    steps_between_truncations: int = 1
    """The minimum number of steps between two truncations of a replica by its own kernels.

    It determines for how many truncations per replica a rollout can store final observations.
    """

    num_agents: int
    """The number of agents per replica."""
    episode_length: int
    """The maximum number of steps of an episode, after which it is truncated."""
    policy_tags: dict[str, Sequence[int]]
    """The ids (from 0) of the agents that share a policy, by policy tag. Each agent has exactly one tag."""
    observation_space: spaces.Space[Any] | dict[str, spaces.Space[Any]]
    """The observation space of one agent, or one space for each tag."""
    action_space: spaces.Space[Any] | dict[str, spaces.Space[Any]]
    """The action space of one agent, or one space for each tag."""

    @classmethod
    def variant(cls, name: str) -> type[Environment]:
        """Return the class of ``<registered name>/<name>``, for environments with many variants.

        Args:
            name: The name of the variant, ``pong`` in ``atari/pong``.

        Raises:
            DefinitionError: If there are no variants, or none of this name.
        """
        raise DefinitionError(f"environment {cls.name} has no variants: found {shown(f'{cls.name}/{name}')}")

    def initial_state(self, rng: np.random.Generator) -> State:
        """Return a start state of one replica: NumPy arrays by name.

        Args:
            rng: The random number generator of the start state, seeded by the run.

        Returns:
            Arrays ``[*shape]``, which kernels access as ``[num_envs, *shape]``. Shapes and dtypes are always the same.
        """
        raise NotImplementedError

    def reference_step(self, state: State, actions: npt.NDArray[Any]) -> State:
        """Return the state after one step of one replica, computed in NumPy, as a reference for the kernels.

        It does not reset the replica, and does not modify its arguments.

        Args:
            state: The arrays of :meth:`initial_state`, ``active`` if agents can leave, and ``timestep``, the number of
                steps taken so far in the episode.
            actions: The actions of all agents.

        Returns:
            The same arrays after the step, with ``timestep`` incremented, and ``observations``, ``rewards`` and
            ``terminated``.
        """
        raise NotImplementedError(f"{type(self).__name__} has no reference_step")

    def reference_observe(self, state: State) -> npt.NDArray[Any]:
        """Return the observations of a state, computed in NumPy.

        Args:
            state: The arrays of a state, see :meth:`reference_step`.

        Returns:
            Observations ``[num_agents, *shape]``.
        """
        raise NotImplementedError(f"{type(self).__name__} has no reference_observe")

    @property
    def can_render(self) -> bool:
        """True if there is a ``draw`` kernel, or :meth:`render` is implemented."""
        return self.draw is not None or type(self).render is not Environment.render

    def scenery(self, state: State) -> Scene:
        """Return the background: walls, tracks, texts. By default an empty scene of the view.

        Args:
            state: The arrays of one replica, as returned by :meth:`warpdrive.Recording.state`.

        Returns:
            The scene to which the agents' shapes are added.
        """
        return Scene(self.view)

    def render(self, state: State, trail: Sequence[State] = ()) -> Figure | Frame | Scene:
        """Return a figure, image or scene of one replica's state, if there is no ``draw`` kernel.

        Args:
            state: The arrays of one replica, as returned by :meth:`warpdrive.Recording.state`.
            trail: The earlier states of the episode.

        Returns:
            A Matplotlib figure, an RGB image ``[height, width, 3]`` uint8, or a scene.
        """
        raise NotImplementedError(f"{type(self).__name__} has no render")


@dataclass(frozen=True)
class KernelFunctions:
    """The kernel functions of an environment, in the language of one backend."""

    step: KernelFunction
    observe: KernelFunction | None
    reset: KernelFunction | None

    def __iter__(self) -> Iterator[KernelFunction]:
        """Iterate over the kernel functions that are defined."""
        return (function for function in (self.step, self.observe, self.reset) if function is not None)


def overrides(environment: Environment, method: str) -> bool:
    """Return True if the class of an environment defines a method of :class:`Environment` itself."""
    return getattr(type(environment), method) is not getattr(Environment, method)


def kernel_functions(environment: Environment, language: str) -> KernelFunctions:
    """Return an environment's kernel functions in ``"Python"`` or ``"CUDA C"``.

    Raises :class:`DefinitionError` if one is only available in the other language.
    """
    return KernelFunctions(*(_in_language(environment, role, language) for role in ("step", "observe", "reset")))


def functions_in_every_language(environment: Environment) -> list[KernelFunction]:
    """Return an environment's kernel functions and their twins, except unreadable CUDA C."""
    own = [environment.step, environment.observe, environment.reset]
    found = [function for function in own if function is not None]
    twins = [environment.cuda_twins.get(f.source.name) for f in found if not isinstance(f, CudaKernel)]
    for twin in twins:
        with suppress(KernelError):  # raised later by the backend that runs it
            if twin is not None and twin.parameters:
                found.append(twin)
    return found


def _in_language(environment: Environment, role: str, language: str) -> Any:
    function: KernelFunction | None = getattr(environment, role)
    if function is None or isinstance(function, CudaKernel) == (language == "CUDA C"):
        return function
    title = f"environment {type(environment).__name__}: '{role}'"
    if isinstance(function, CudaKernel):
        raise DefinitionError(
            f"{title} is CUDA C ({function.where}), which this backend does not run: use env_backend='pycuda' "
            "(without a GPU: with WARPDRIVE_CUDA_ON_HOST=1)"
        )
    name = function.source.name
    if name not in environment.cuda_twins:
        raise DefinitionError(
            f"{title} is Python ({function.where}), and this backend runs CUDA C: write '{name}' in CUDA C, too, and "
            f"name it in the class, cuda_twins = {{'{name}': wd.cuda_kernel('file.cu', '{name}')}}, or use another "
            "env_backend"
        )
    return environment.cuda_twins[name]


def spaces_by_tag(
    environment: Environment, given: spaces.Space[Any] | dict[str, spaces.Space[Any]]
) -> dict[str, spaces.Space[Any]]:
    """Return the space of each policy tag, whether shared or separate."""
    return dict(given) if isinstance(given, dict) else dict.fromkeys(environment.policy_tags, given)


def check_environment(environment: Environment) -> None:
    """Validate the definition of an environment without running it.

    Raises :class:`DefinitionError` that names the attribute, the value found and the value expected.
    """
    title = f"environment {type(environment).__name__}"
    if not isinstance(environment, Environment):
        raise DefinitionError(
            f"an environment is an instance of a subclass of warpdrive.Environment, found {shown(environment)}"
            + _advice(environment)
        )
    for attribute in (
        "name",
        "step",
        "num_agents",
        "episode_length",
        "policy_tags",
        "observation_space",
        "action_space",
    ):
        with user_code(f"{title}: '{attribute}'"):
            missing = not hasattr(environment, attribute)
        if missing:
            raise DefinitionError(f"{title} has no '{attribute}': set it in the class or in its constructor")
    start = environment.initial_state
    if not callable(start) or getattr(start, "__func__", None) is Environment.initial_state:
        raise DefinitionError(
            f"{title} has no 'initial_state': define it to return the arrays of a start state by name"
        )
    if not isinstance(environment.name, str) or not environment.name:
        raise DefinitionError(f"{title}: name is {shown(environment.name)}, expected a string")
    for attribute in ("num_agents", "episode_length", "steps_between_truncations"):
        value = getattr(environment, attribute)
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or not 1 <= value <= _LARGEST_INT32:
            raise DefinitionError(f"{title}: {attribute} is {shown(value)}, expected a positive integer (int32)")
    for attribute in ("step", "observe", "reset"):
        value = getattr(environment, attribute)
        if not isinstance(value, (Kernel, CudaKernel)) and (attribute == "step" or value is not None):
            raise DefinitionError(
                f"{title}: '{attribute}' is {shown(value)}, expected a function marked with @wd.kernel, "
                "or wd.cuda_kernel(...)"
            )
    if environment.draw is not None or environment.draw_things is not None:
        _check_drawing(title, environment)
    twins = environment.cuda_twins
    if not isinstance(twins, Mapping) or not all(isinstance(twin, CudaKernel) for twin in twins.values()):
        raise DefinitionError(f"{title}: cuda_twins is {shown(twins)}, expected a dict of wd.cuda_kernel(...) by name")
    _check_policy_tags(title, environment)
    state = environment.global_state
    is_list = isinstance(state, (list, tuple)) and all(isinstance(name, str) for name in state)
    if not is_list or len(set(state)) < len(state):
        raise DefinitionError(f"{title}: global_state is {shown(state)}, expected a list of names of arrays, each once")
    for attribute in ("observation_space", "action_space"):
        _check_space(title, attribute, getattr(environment, attribute), environment)


def _check_drawing(title: str, environment: Environment) -> None:
    if not isinstance(environment.draw, Kernel):
        raise DefinitionError(
            f"{title}: 'draw' is {shown(environment.draw)}, expected a Python function marked with @wd.kernel"
        )
    view = getattr(environment, "view", None)
    numbers = isinstance(view, tuple) and len(view) == 4 and all(isinstance(end, (int, float)) for end in view)
    if view is None or not numbers or not (view[0] < view[1] and view[2] < view[3]):
        raise DefinitionError(
            f"{title}: view is {shown(view)}, expected (lowest x, highest x, lowest y, highest y), which 'draw' needs"
        )
    count = environment.shapes_per_agent
    if type(count) is not int or not 1 <= count <= 64:
        raise DefinitionError(f"{title}: shapes_per_agent is {shown(count)}, expected an integer from 1 to 64")
    if environment.draw_things is not None and not isinstance(environment.draw_things, Kernel):
        raise DefinitionError(
            f"{title}: 'draw_things' is {shown(environment.draw_things)}, expected a Python function marked with "
            "@wd.kernel"
        )
    for name, own, other in (("draw", "shapes", "things"), ("draw_things", "things", "shapes")):
        kernel = getattr(environment, name)
        if kernel is not None and other in kernel.parameters:
            raise DefinitionError(
                f"{kernel.where}: '{name}' has the parameter '{other}', expected '{own}', the array that it writes"
            )
    count = environment.things_per_agent
    if type(count) is not int or count < 1:
        raise DefinitionError(f"{title}: things_per_agent is {shown(count)}, expected an integer of at least 1")


def _advice(given: object) -> str:
    """Return advice for objects that are often passed instead of an environment, or ""."""
    if isinstance(given, type) and issubclass(given, Environment):
        return f": create one, {given.__name__}()"
    if isinstance(given, (gymnasium.Env, gymnasium.vector.VectorEnv)):
        return ": the step of an environment is a kernel here, see docs/guides/authoring.md"
    return ""


def _check_policy_tags(title: str, environment: Environment) -> None:
    seen: dict[int, str] = {}
    if not isinstance(environment.policy_tags, Mapping):
        raise DefinitionError(
            f"{title}: policy_tags is {shown(environment.policy_tags)}, expected a dict from tag to a list of agent ids"
        )
    of_all = f"{title}: policy_tags must give each of the agents 0 to {environment.num_agents - 1} one tag"
    for tag, agents in environment.policy_tags.items():
        if not isinstance(tag, str) or not tag.isidentifier():
            raise DefinitionError(f"{title}: policy tag {shown(tag)} is not a plain name")
        description = f"{title}: policy tag '{tag}' is {shown(agents)}"
        if not isinstance(agents, (list, tuple, range)) and not (isinstance(agents, np.ndarray) and agents.ndim == 1):
            raise DefinitionError(f"{description}, expected a list of agent ids (integers)")
        if len(agents[:1]) == 0:
            raise DefinitionError(f"{title}: policy tag '{tag}' has no agents")
        for agent in agents:  # a range may be huge: stop at the first invalid id
            if not _is_agent_id(agent):
                raise DefinitionError(f"{description}, expected a list of agent ids (integers)")
            if not 0 <= agent < environment.num_agents:
                raise DefinitionError(f"{of_all}; agent {shown(agent)} does not exist")
            if agent in seen:
                raise DefinitionError(f"{title}: agent {agent} has two policy tags, '{seen[agent]}' and '{tag}'")
            seen[agent] = tag
    if len(seen) < environment.num_agents:
        wrong = next(agent for agent in range(environment.num_agents) if agent not in seen)
        raise DefinitionError(f"{of_all}; agent {wrong} is missing")


def _is_agent_id(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _check_space(title: str, attribute: str, given: Any, environment: Environment) -> None:
    if isinstance(given, dict) and set(given) != set(environment.policy_tags):
        raise DefinitionError(
            f"{title}: {attribute} has the tags {shown(list(given))}, "
            f"policy_tags has {shown(list(environment.policy_tags))}"
        )
    if isinstance(given, spaces.Dict) and set(given) == set(environment.policy_tags) and len(given) > 1:
        raise DefinitionError(
            f"{title}: {attribute} is a Dict space whose keys are the policy tags, expected a plain dict, which has a "
            "space for each tag; a Dict space is one space of all agents, with other keys"
        )
    allowed: tuple[type, ...] = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete)
    expected = "a Box, Discrete or MultiDiscrete space of gymnasium"
    found = list(spaces_by_tag(environment, given).values())
    if attribute == "observation_space":
        found = [part for space in found for part in _parts(title, space)]
        expected = f"{expected}, or a Dict of them"
    for space in found:
        if not isinstance(space, allowed):
            raise DefinitionError(f"{title}: {attribute} is {shown(space)}, expected {expected}")
        if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)) and np.any(space.start != 0):
            raise DefinitionError(f"{title}: {attribute} is {shown(space)}: its values must start at 0")
        if attribute == "action_space" and isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim != 1:
            raise DefinitionError(f"{title}: {attribute} is {shown(space)}: expected a space with one axis")
        if attribute == "action_space" and isinstance(space, spaces.Box):
            if space.dtype != np.float32:
                raise DefinitionError(f"{title}: {attribute} is {shown(space)}: a Box of actions must be float32")
            if not np.all(space.low < space.high):
                raise DefinitionError(
                    f"{title}: {attribute} is {shown(space)}: its bounds must differ in every component"
                )


def _parts(title: str, space: Any) -> list[Any]:
    """Return the subspaces of a Dict space, each of which has a separate array, or the space itself."""
    if not isinstance(space, spaces.Dict):
        return [space]
    for key in space:
        if not isinstance(key, str) or not f"_{key}".isidentifier():
            raise DefinitionError(
                f"{title}: observation_space has the key {shown(key)}, which cannot be part of the name of an "
                "array: use letters, digits and _"
            )
    if not len(space):
        raise DefinitionError(f"{title}: observation_space is an empty Dict")
    return list(space.values())
