"""Training by PyTorch Lightning: an iteration of a trainer is a training step, of which an epoch has one."""

from __future__ import annotations

import time
from typing import Any

import torch
from pytorch_lightning import Callback, LightningModule
from torch import nn
from torch.utils.data import DataLoader

from warpdrive.interop.warpdrive2.devices import on_gpu
from warpdrive.interop.warpdrive2.trainer import Trainer


class WarpDriveModule(LightningModule):
    """Trainer as a module of PyTorch Lightning; its attributes are those of the trainer.

    Args:
        env_wrapper: Replicas of an environment, of a kernel backend.
        config: Run configuration with the sections ``trainer``, ``policy`` and ``saving``.
        *args: Further arguments of ``TrainerBase``.
        **kwargs: Further arguments of ``TrainerBase``.
    """

    def __init__(self, env_wrapper: Any, config: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.warpdrive_trainer = Trainer(env_wrapper, config, *args, **kwargs)
        policies = self.warpdrive_trainer.policies
        parts = {
            name: part for policy in policies for name, part in self.warpdrive_trainer._checkpointed(policy).items()
        }
        self.policy_models = nn.ModuleDict(parts)
        self.iterations = 0

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.__dict__["warpdrive_trainer"], name)

    def setup(self, stage: str) -> None:
        """Move a trainer of one GPU to the CPU if there is no GPU."""
        strategy: Any = self.trainer.strategy
        if not on_gpu() and strategy.root_device.type == "cuda":
            strategy._root_device = torch.device("cpu")

    @property
    def device(self) -> torch.device:
        """Device of the parameters."""
        return next(self.policy_models.parameters()).device

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Return the module: its parameters are where the kernels are."""
        return self

    def transfer_batch_to_device(self, batch: Any, device: Any, dataloader_idx: int) -> Any:
        """Return the batch, which holds no data."""
        return batch

    def configure_optimizers(self) -> list[Any]:
        """Return the optimizers of the policies."""
        return list(self.warpdrive_trainer.optimizers.values())

    def train_dataloader(self) -> DataLoader[int]:
        """Return a loader of one batch: a training step collects its own data."""
        return DataLoader([0])  # type: ignore[arg-type]

    def training_step(self, batch: Any, batch_idx: int = 0) -> None:
        """Collect a batch in all replicas and update the policies."""
        metrics = self.warpdrive_trainer.train_iteration(self.iterations)
        self.iterations += 1
        for policy, values in metrics.items():
            self.log_dict({f"{name}_{policy}": value for name, value in values.items()})


class PerfStatsCallback(Callback):
    """Callback that prints how long training steps take.

    Args:
        batch_size: Environment steps of a training step.
        num_iters: Number of training steps.
        log_freq: Training steps from one print to the next.
    """

    def __init__(self, batch_size: int, num_iters: int, log_freq: int = 1) -> None:
        super().__init__()
        self.batch_size, self.num_iters, self.log_freq = batch_size, num_iters, log_freq
        self.iters, self.training_time, self._began = 0, 0.0, 0.0

    def on_train_batch_start(self, *_: Any, **__: Any) -> None:
        """Start the timer."""
        self._began = time.perf_counter()

    def on_train_batch_end(self, *_: Any, **__: Any) -> None:
        """Stop the timer."""
        self.training_time += time.perf_counter() - self._began
        self.iters += 1
        if self.iters % self.log_freq == 0 or self.iters == self.num_iters:
            speed = self.iters * self.batch_size / self.training_time
            print(f"Iteration {self.iters} / {self.num_iters}: {speed:.2f} steps per second")


class CUDACallback(Callback):
    """Callback that resets the replicas before training.

    Args:
        module: The module that is trained.
    """

    def __init__(self, module: WarpDriveModule) -> None:
        super().__init__()
        self.module = module

    def on_train_start(self, *_: Any, **__: Any) -> None:
        """Reset the replicas."""
        self.module.cuda_envs.reset_all_envs()
