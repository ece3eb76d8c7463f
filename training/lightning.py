"""Training with the Trainer of PyTorch Lightning 2, which manages devices, precision, logging and checkpoints.

    import lightning
    from warpdrive.training.lightning import RolloutData, WarpDriveModule

    module = WarpDriveModule("cartpole")
    lightning.Trainer(max_epochs=1).fit(module, RolloutData(module))

A batch is a rollout, an epoch a whole run, and a training step an update of all policies.

``WarpDriveModule`` holds a ``wd.Trainer`` whose gradient steps Lightning takes through ``Algorithm.optimizer_step``;
its checkpoints have the contents of WarpDrive's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset

from warpdrive.errors import ConfigError, TrainingError
from warpdrive.interop.replicas import make_replicas
from warpdrive.training.algorithms.base import Algorithm, BeforeStep, take_step
from warpdrive.training.algorithms.custom import CustomConfig
from warpdrive.training.checkpoint.checkpoint import Checkpoint
from warpdrive.training.config.load import RunConfig, load_config
from warpdrive.training.distributed.bootstrap import stay_alone
from warpdrive.training.distributed.process_group import ProcessGroup
from warpdrive.training.models.running_moments import RunningMoments
from warpdrive.training.runtime.torch_threads import torch_threads
from warpdrive.training.trainer import Trainer

try:
    from lightning import Callback, LightningDataModule, LightningModule
except ImportError as missing:
    raise ImportError(
        "warpdrive.training.lightning needs PyTorch Lightning 2, which is not installed: "
        "pip install 'warpdrive[lightning]'"
    ) from missing

_PRECISIONS = ("32-true", "bf16-mixed")


class WarpDriveModule(LightningModule):  # type: ignore[misc]
    """Policies of a run, and the updates that train them.

    With several devices each process has an equal part of the replicas, by their global indices, and gradients are
    averaged in every step (strategy ``ddp``; with several policies, or critics apart from the policy,
    ``ddp_find_unused_parameters_true``). Running means and variances of observations, returns and rewards are those of
    all processes. Advantages are normalised, minibatches sampled, and returns of agents that have left the episode
    estimated, within each process.

    Args:
        source: A run configuration, as accepted by ``load_config``. ``trainer.num_envs``, ``trainer.train_batch_size``
            and ``trainer.total_steps`` are totals over all processes; schedules follow the steps of one process.
            Lightning replaces the section ``saving``.
        overrides: See ``load_config``.

    Attributes:
        config: The run configuration.
        engine: The trainer that collects rollouts and updates, after ``fit`` has begun. ``engine.evaluate()`` and
            ``engine.save(path)`` work as usual.
    """

    def __init__(self, source: str | Path | Mapping[str, Any] | RunConfig, overrides: Sequence[str] = ()) -> None:
        super().__init__()
        given = source.model_dump(mode="json") if isinstance(source, RunConfig) else source
        self.config = load_config(given, overrides)
        self.automatic_optimization = False  # an update takes many gradient steps
        self.models = nn.ModuleDict()
        self._engine: Trainer | None = None
        self._threads = ExitStack()

    @property
    def engine(self) -> Trainer:
        """Trainer of the rollouts and updates. Raises ``TrainingError`` before ``fit``."""
        if self._engine is None:
            raise TrainingError("WarpDriveModule: the replicas are not created before lightning.Trainer.fit")
        return self._engine

    def setup(self, stage: str) -> None:
        """Create the replicas of this process, on its device."""
        if self._engine is not None:
            return
        if self.trainer.precision not in _PRECISIONS:
            raise ConfigError(
                f"lightning.Trainer: found precision '{self.trainer.precision}', expected {' or '.join(_PRECISIONS)}"
            )
        self._engine = self._make_engine()
        for tag, policy in self._engine.policies.items():
            policy.algorithm.optimizer_step = self._descend
            if self.trainer.world_size > 1:
                self._share_moments(policy.algorithm)
            self.models[tag.replace(".", "_")] = policy.model

    def configure_callbacks(self) -> list[Callback]:
        """Return a callback that restores the number of PyTorch's CPU threads after an exception."""
        return [_OnException(self._threads.close)]

    def on_fit_start(self) -> None:
        """Set the number of PyTorch's CPU threads, ``trainer.torch_threads``, until the end of the fit."""
        self._threads.enter_context(torch_threads(self.config.trainer.torch_threads))

    def on_fit_end(self) -> None:
        """Restore the number of PyTorch's CPU threads."""
        self._threads.close()

    def configure_optimizers(self) -> list[torch.optim.Optimizer]:
        """Return the optimizers of the algorithms."""
        parts = [part for policy in self.engine.policies.values() for part in policy.algorithm.parts().values()]
        return [part for part in parts if isinstance(part, torch.optim.Optimizer)]

    def training_step(self, batch: int, batch_idx: int) -> None:
        """Update all policies, and log the losses and episode statistics that ``metrics.csv`` of a run has."""
        if batch != self.engine.env_steps:  # fetched too early, or by a worker
            raise TrainingError(
                "WarpDriveModule: the rollout was overwritten before it was used; use RolloutData as it is"
            )
        metrics = {**self.engine.update(), **self._charts()}
        self.log_dict(metrics, on_step=True, on_epoch=False, batch_size=1)
        self.log("env_steps", float(self.engine.env_steps * self.trainer.world_size), batch_size=1)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add the full training state: replicas, generators, experience, counters."""
        whole = self.engine.checkpoint()
        checkpoint["warpdrive"] = {"config": whole.config, "models": whole.models, "state": whole.state}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restore the state added by :meth:`on_save_checkpoint`."""
        stored = checkpoint["warpdrive"]
        self.engine.restore(Checkpoint(stored["config"], {}, stored["models"], stored["state"]))

    def _make_engine(self) -> Trainer:
        config, processes, rank = self.config, self.trainer.world_size, self.trainer.global_rank
        if config.env is None:
            raise ConfigError(f"run '{config.name}': its environment has no registered name")
        if config.trainer.num_envs % processes:
            raise ConfigError(
                f"trainer.num_envs: found {config.trainer.num_envs}, expected a multiple of the {processes} processes"
            )
        for tag, settings in config.policy.items():
            if processes > 1 and isinstance(settings, CustomConfig):
                raise ConfigError(
                    f"policy.{tag}.algorithm: found 'custom', but Lightning averages gradients over its {processes} "
                    "processes, and 'custom' has none; use `warpdrive train` with trainer.sync=rollouts"
                )
        stay_alone()
        num_envs = config.trainer.num_envs // processes
        raw = config.model_dump(mode="json")
        raw["trainer"] |= {
            "num_envs": num_envs,
            "train_batch_size": num_envs * config.trainer.rollout_length,
            "total_steps": math.ceil(config.trainer.total_steps / processes),
        }
        env = make_replicas(
            config.env.name,
            config.env.parameters,
            num_envs=num_envs,
            env_backend=config.trainer.env_backend,
            seed=config.trainer.seed,
            reset_pool_size=config.trainer.reset_pool_size,
            first_env=rank * num_envs,
            process_id=self.trainer.local_rank,
        )
        device = self.trainer.strategy.root_device
        if env.device.type != device.type:
            raise ConfigError(
                f"lightning.Trainer is on {device}, but the replicas are on {env.device} (trainer.env_backend: "
                f"{config.trainer.env_backend}); pass accelerator='{'gpu' if env.device.type == 'cuda' else 'cpu'}'"
            )
        return Trainer(env, raw, device_id=env.device.index or 0)

    def _share_moments(self, algorithm: Algorithm[Any]) -> None:
        """Make running moments include the rows of all processes."""
        processes = _Processes(self.trainer.strategy)
        parts = [part for part in algorithm.parts().values() if isinstance(part, nn.Module)]
        for module in nn.ModuleList([algorithm.model, *parts]).modules():
            if isinstance(module, RunningMoments):
                module.process_group = processes

    def _descend(
        self,
        loss: Tensor,
        terms: Mapping[str, Tensor],
        optimizer: torch.optim.Optimizer,
        module: nn.Module,
        max_grad_norm: float = math.inf,
        before: BeforeStep | None = None,
    ) -> dict[str, Tensor]:
        """Take an optimizer step by Lightning, which handles precision and other processes; see ``OptimizerStep``."""
        wrappers = self.optimizers()
        known = wrappers if isinstance(wrappers, list) else [wrappers]
        trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
        for parameter in trained:
            parameter.grad = None
        self.manual_backward(loss, retain_graph=True)  # a critic may take its own step on the same loss
        gradients = [torch.zeros_like(each) if each.grad is None else each.grad for each in trained]
        # DDP averages the gradients of the models only, neither those of critics and mixers nor the terms
        parts = [each.flatten() for each in (*gradients, *terms.values())]
        size = sum(each.numel() for each in trained)
        gradient, means = self.trainer.strategy.reduce(torch.cat(parts), reduce_op="mean").tensor_split([size])
        terms = dict(zip(terms, means.unbind(), strict=True))
        wrapper = next(wrapper for wrapper in known if wrapper.optimizer is optimizer)
        more = before(terms) if before else {}
        norm = take_step(wrapper, gradient, max_grad_norm)
        return {**terms, **more, "grad_norm": norm}

    def _charts(self) -> dict[str, Tensor]:
        """Return means over the episodes that ended in the rollout; NaN if there are none."""
        found, env = self.engine.env.episode_statistics(), self.engine.env
        returns = {
            f"charts/episodic_return/{tag}": found["return"][list(ids)].mean() / found["episodes"]
            for tag, ids in env.policy_tags.items()
        }
        return {**returns, "charts/episodic_length": found["length"] / found["episodes"]}


class RolloutData(LightningDataModule):  # type: ignore[misc]
    """Data module that collects a rollout for each training step, until ``trainer.total_steps`` environment steps.

    Args:
        module: Module whose policies act.
    """

    def __init__(self, module: WarpDriveModule) -> None:
        super().__init__()
        self.module = module

    def train_dataloader(self) -> DataLoader[int]:
        """Return a loader of consecutive rollouts."""
        return DataLoader(_Rollouts(self.module.engine), batch_size=None)


class _Processes(ProcessGroup):
    """Processes of a strategy of Lightning; of the collectives only the one that running moments need."""

    def __init__(self, strategy: Any) -> None:
        self.strategy = strategy
        self.rank, self.world_size = strategy.global_rank, strategy.world_size

    def all_gather(self, rows: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """See ``ProcessGroup``; the number of rows is equal in all processes."""
        return {name: self.strategy.all_gather(value).flatten(0, 1) for name, value in rows.items()}


class _OnException(Callback):  # type: ignore[misc]
    """Callback that calls ``clean_up`` after an exception, Ctrl-C included; modules have no such hook."""

    def __init__(self, clean_up: Callable[[], None]) -> None:
        self.clean_up = clean_up

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self.clean_up()


class _Rollouts(IterableDataset[int]):
    """Data set that collects rollouts of ``engine`` and yields the number of environment steps.

    It has a length because Lightning otherwise prefetches: the next rollout would overwrite the current one before use.
    """

    def __init__(self, engine: Trainer) -> None:
        self.engine = engine

    def __len__(self) -> int:
        config = self.engine.config.trainer
        return math.ceil(config.total_steps / config.train_batch_size)

    def __iter__(self) -> Iterator[int]:
        while self.engine.updates < len(self):
            self.engine.collect()
            yield self.engine.env_steps
