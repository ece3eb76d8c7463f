"""Environments of this package in the form of WarpDrive 2's example environments, under the names of these."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch

from warpdrive import registry
from warpdrive.env_wrapper import EnvWrapper
from warpdrive.interop.warpdrive2.data_feed import Constants, DataFeed
from warpdrive.interop.warpdrive2.environments import CUDAEnvironmentContext


class ExampleEnvironment(CUDAEnvironmentContext):
    """Environment of this package with the interface of one of WarpDrive 2.

    Args:
        env_backend: ``"cpu"``: steps in NumPy; otherwise with the environment's kernels.
        reset_pool_size: Number of random start states; fewer than 2: all episodes start from the same one.
        seed: Seed of start states, and of the environment if it has such a parameter.
        **parameters: Parameters of the environment.
    """

    name: ClassVar[str]
    registered: ClassVar[str]
    renamed: ClassVar[dict[str, str]] = {}
    fixed: ClassVar[dict[str, Any]] = {}

    def __init__(
        self, env_backend: str = "cpu", reset_pool_size: int = 0, seed: int | None = None, **parameters: Any
    ) -> None:
        super().__init__()
        self.inner: Any = registry.make(self.registered, **self._with_seed(seed), **self.fixed, **parameters)
        self.env_backend, self.reset_pool_size, self.seed = env_backend, reset_pool_size, seed
        self.num_agents, self.episode_length = int(self.inner.num_agents), int(self.inner.episode_length)
        self.action_space = dict.fromkeys(range(self.num_agents), self.inner.action_space)
        self.observation_space: Any = None
        self.agents = dict.fromkeys(range(self.num_agents), True)
        self.timestep = 0
        self._launches: Any = None
        self._starts = self._start_states()

    @classmethod
    def _with_seed(cls, seed: int | None) -> dict[str, Any]:
        return {}

    def _start_states(self) -> dict[str, Any]:
        size = max(self.reset_pool_size, 1)
        replicas = EnvWrapper(self.inner, num_envs=size, seed=self.seed or 0, reset_pool_size=size)
        names = self.inner.initial_state(np.random.default_rng(0))
        found = {name: replicas.ctx[name].cpu().numpy().copy() for name in names}
        replicas.close()
        return found

    def reset(self) -> dict[int, Any]:
        """Return the first observations by agent id."""
        self.timestep = 0
        self._state = {name: values[0].copy() for name, values in self._starts.items()}
        self._state["timestep"] = np.int32(0)
        return self._by_agent(self.inner.reference_observe(self._state))

    @staticmethod
    def _by_agent(values: Any) -> dict[int, Any]:
        return dict(enumerate(np.asarray(values, np.float32)))

    def step(self, actions: Any = None) -> Any:
        """Advance by one step.

        Args:
            actions: Actions by agent id, for the backend ``"cpu"``.

        Returns:
            Observations, rewards, ends of episodes and ``{}`` by agent id, for the backend ``"cpu"``; else None.
        """
        self.timestep += 1
        if self.env_backend != "cpu":
            return self._launch()
        chosen = np.array([np.asarray(actions[agent]) for agent in range(self.num_agents)])
        after = self.inner.reference_step(self._state, chosen)
        self._state = {name: after[name] for name in self._state}
        ended = bool(after["terminated"]) or self.timestep == self.episode_length
        rewards = self._by_agent(np.asarray(after["rewards"]).reshape(self.num_agents))
        return self._by_agent(after["observations"]), rewards, {"__all__": ended}, {}

    def initialize_step_function_context(
        self, cuda_data_manager: Any, cuda_function_manager: Any, cuda_step_function_feed: Any, step_function_name: str
    ) -> bool:
        """Store the context of the step function; its kernels are those of this package.

        Args:
            cuda_data_manager: The data.
            cuda_function_manager: The kernels' sizes.
            cuda_step_function_feed: Unused.
            step_function_name: Unused.

        Returns:
            True.
        """
        self.cuda_data_manager, self.cuda_function_manager = cuda_data_manager, cuda_function_manager
        return True

    def get_data_dictionary(self) -> DataFeed:
        """Return the arrays of the state, and the end of the episode as the kernels write it."""
        feed, pooled = DataFeed(), self.reset_pool_size >= 2
        for name, values in self._starts.items():
            feed.add_data(self.renamed.get(name, name), values[0], save_copy_and_apply_at_reset=not pooled)
        feed.add_data("terminated", np.zeros((), np.bool_), save_copy_and_apply_at_reset=True)
        return feed

    def get_reset_pool_dictionary(self) -> DataFeed:
        """Return the random start states."""
        feed = DataFeed()
        for name, values in self._starts.items() if self.reset_pool_size >= 2 else ():
            target = self.renamed.get(name, name)
            feed.add_pool_for_reset(f"{target}_reset_pool", values, reset_target=target)
        return feed

    def _launch(self) -> None:
        data = self.cuda_data_manager
        if self._launches is None:
            kernels = [kernel for kernel in (self.inner.step, self.inner.observe) if kernel is not None]
            manager = self.cuda_function_manager
            self._launches = [
                (kernel[manager.grid[0], manager.block[0]], [self._argument(name) for name in kernel.parameters])
                for kernel in kernels
            ]
        timestep, done, terminated = data.tensor("_timestep_"), data.tensor("_done_"), data.tensor("terminated")
        timestep += 1
        data.tensor(Constants.REWARDS).zero_()
        for launch, arguments in self._launches:
            launch(*arguments)
        done.copy_(terminated | (timestep >= self.episode_length))

    def _argument(self, name: str) -> Any:
        """Return the value of a kernel parameter: an array, or an attribute of the environment."""
        arrays = {"actions": Constants.ACTIONS, "timestep": "_timestep_", **self.renamed}
        array, data = arrays.get(name, name), self.cuda_data_manager
        if data.is_data_on_device(array):
            tensor = data.tensor(array)
            return tensor[..., 0] if name == "actions" and hasattr(self.inner.action_space, "n") else tensor
        value = getattr(self.inner, name)
        if isinstance(value, np.ndarray):
            return torch.from_numpy(value).to(data.tensor("_done_").device)
        return np.float32(value) if isinstance(value, float) else value


class TagGridWorld(ExampleEnvironment):
    """Taggers chase one runner on a grid. Arguments are those of :class:`ExampleEnvironment`."""

    name, registered = "TagGridWorld", "tag_gridworld"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        names = ("num_taggers", "grid_length", "episode_length")
        super().__init__(**dict(zip(names, args, strict=False)), **kwargs)
        self.num_taggers = self.inner.num_taggers
        self.taggers, self.runners = (dict.fromkeys(self.inner.policy_tags[tag], True) for tag in ("tagger", "runner"))

    @classmethod
    def _with_seed(cls, seed: int | None) -> dict[str, Any]:
        return {"seed": seed}


class CUDATagGridWorldWithResetPool(TagGridWorld):
    """Taggers chase one runner on a grid, from five random start states."""

    fixed: ClassVar[dict[str, Any]] = {"random_starts": True}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"reset_pool_size": 5, **kwargs})

    @classmethod
    def _with_seed(cls, seed: int | None) -> dict[str, Any]:
        return {}


class TagContinuous(ExampleEnvironment):
    """Taggers and runners on a continuous square. Arguments are those of :class:`ExampleEnvironment`."""

    name, registered = "TagContinuous", "tag_continuous"
    renamed: ClassVar[dict[str, str]] = {"active": "still_in_the_game"}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        names = ("num_taggers", "num_runners", "grid_length", "episode_length")
        super().__init__(**dict(zip(names, args, strict=False)), **kwargs)
        self.grid_length, self.num_taggers = self.inner.grid_length, self.inner.num_taggers
        self.num_runners = self.inner.num_runners
        self.taggers, self.runners = (dict.fromkeys(self.inner.policy_tags[tag], True) for tag in ("tagger", "runner"))

    @classmethod
    def _with_seed(cls, seed: int | None) -> dict[str, Any]:
        return {"seed": seed}


class _ClassicControl(ExampleEnvironment):
    def __init__(
        self, episode_length: int = 500, env_backend: str = "cpu", reset_pool_size: int = 0, seed: int | None = None
    ) -> None:
        super().__init__(env_backend, reset_pool_size, seed, episode_length=episode_length)


class ClassicControlCartPoleEnv(_ClassicControl):
    """A pole on a cart."""

    name, registered = "ClassicControlCartPoleEnv", "cartpole"


class ClassicControlAcrobotEnv(_ClassicControl):
    """Two links, of which the outer one is driven."""

    name, registered = "ClassicControlAcrobotEnv", "acrobot"


class ClassicControlMountainCarEnv(_ClassicControl):
    """A car in a valley, with three choices of force."""

    name, registered = "ClassicControlMountainCarEnv", "mountain_car"


class ClassicControlContinuousMountainCarEnv(_ClassicControl):
    """A car in a valley, with a continuous force."""

    name, registered = "ClassicControlContinuousMountainCarEnv", "continuous_mountain_car"


class ClassicControlPendulumEnv(_ClassicControl):
    """A pendulum that is swung up, with a gravity of 9.81."""

    name, registered = "ClassicControlPendulumEnv", "pendulum"
    fixed: ClassVar[dict[str, Any]] = {"gravity": 9.81}


CUDATagGridWorld = TagGridWorld
CUDAClassicControlCartPoleEnv = ClassicControlCartPoleEnv
CUDAClassicControlAcrobotEnv = ClassicControlAcrobotEnv
CUDAClassicControlMountainCarEnv = ClassicControlMountainCarEnv
CUDAClassicControlContinuousMountainCarEnv = ClassicControlContinuousMountainCarEnv
CUDAClassicControlPendulumEnv = ClassicControlPendulumEnv


def generate_tag_env_rollout_animation(
    trainer: Any,
    fps: int = 50,
    tagger_color: str = "tab:purple",
    runner_color: str = "tab:blue",
    runner_not_in_game_color: str = "lightgray",
    fig_width: float = 6,
    fig_height: float = 6,
) -> Any:
    """Play an episode of ``TagContinuous`` and return its animation.

    Args:
        trainer: Trainer of the policies.
        fps: Frames per second.
        tagger_color: Color of taggers.
        runner_color: Color of runners.
        runner_not_in_game_color: Color of runners that were tagged.
        fig_width: Width in inches.
        fig_height: Height in inches.

    Returns:
        An animation of matplotlib.
    """
    from matplotlib import animation, pyplot

    names = ["loc_x", "loc_y", "still_in_the_game"]
    states, env = trainer.fetch_episode_states(names), trainer.cuda_envs.env
    x, y, playing = (states[name][~np.isnan(states[name]).any(axis=1)] for name in names)
    figure, axes = pyplot.subplots(figsize=(fig_width, fig_height))
    axes.set(xlim=(0, env.grid_length), ylim=(0, env.grid_length), xticks=[], yticks=[], aspect="equal")
    points = axes.scatter(x[0], y[0])

    def draw(step: int) -> tuple[Any]:
        shown = [runner_color if left else runner_not_in_game_color for left in playing[step]]
        points.set_color([tagger_color if agent in env.taggers else shown[agent] for agent in range(env.num_agents)])
        points.set_offsets(np.stack([x[step], y[step]], axis=1))
        return (points,)

    result = animation.FuncAnimation(figure, draw, frames=len(x), interval=1000.0 / fps, blit=True)
    pyplot.close(figure)
    return result
