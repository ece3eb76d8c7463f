"""TensorBoard event files."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from warpdrive.errors import ConfigError
from warpdrive.training.run.sinks.sink import without_nan
from warpdrive.training.runtime.atomic_write import writing

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class TensorBoardEvents:
    """TensorBoard event files. TensorBoard is imported for the first metrics: a run starts without it.

    Args:
        folder: Folder of the event files.
        go_on_after: Environment steps of a resumed run: later events in the folder are superseded.
    """

    title = "TensorBoard"

    def __init__(self, folder: Path, go_on_after: int = 0) -> None:
        self._folder = folder
        self._purge_step = go_on_after + 1 if go_on_after else None
        self._made: SummaryWriter | None = None

    def add(self, env_steps: int, metrics: Mapping[str, float]) -> None:
        """See ``MetricSink``."""
        with writing(self._folder):
            writer = self._writer()
            for name, value in without_nan(metrics).items():
                writer.add_scalar(name, value, env_steps)
            writer.flush()

    def add_replay(self, env_steps: int, path: Path) -> None:
        """See ``MetricSink``. TensorBoard animates images that are GIFs."""
        with writing(self._folder):
            file_writer = self._writer()._get_file_writer()
            from tensorboard.compat.proto.summary_pb2 import Summary

            gif = path.read_bytes()
            width, height = (int.from_bytes(gif[at : at + 2], "little") for at in (6, 8))
            image = Summary.Image(height=height, width=width, colorspace=3, encoded_image_string=gif)
            file_writer.add_summary(Summary(value=[Summary.Value(tag="replay", image=image)]), env_steps)

    def close(self, status: str) -> None:
        """See ``MetricSink``."""
        if self._made is not None:
            with writing(self._folder):
                self._made.close()

    def _writer(self) -> SummaryWriter:
        if self._made is None:
            from torch.utils.tensorboard import SummaryWriter

            self._made = SummaryWriter(str(self._folder), purge_step=self._purge_step)
        return self._made


def writes_events(wanted: bool | None) -> bool:
    """Return True if event files are written: as configured by ``saving.tensorboard``, by default if possible.

    Raises:
        ConfigError: If they are requested explicitly, but TensorBoard is not installed.
    """
    installed = wanted is not False and importlib.util.find_spec("tensorboard") is not None
    if wanted and not installed:
        raise ConfigError(
            "saving.tensorboard: TensorBoard is not installed: pip install 'warpdrive[tensorboard]', or remove "
            "saving.tensorboard"
        )
    return installed
