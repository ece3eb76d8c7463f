"""Descriptions of the arrays of an environment, as WarpDrive 2 environments return them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class Constants:
    """Names of arrays that the sampler, the environments and the trainer share."""

    OBSERVATIONS = "observations"
    ACTIONS = "sampled_actions"
    REWARDS = "rewards"
    DONE_FLAGS = "done_flags"
    PROCESSED_OBSERVATIONS = "processed_observations"
    ACTION_MASK = "action_mask"


class DataFeed(dict[str, dict[str, Any]]):
    """Arrays and numbers by name, each with its attributes: ``{name: {"data": ..., "attributes": {...}}}``."""

    def add_data(
        self,
        name: str,
        data: Any,
        save_copy_and_apply_at_reset: bool = False,
        log_data_across_episode: bool = False,
        **attributes: Any,
    ) -> None:
        """Add an array or a number.

        Args:
            name: Its name on the device.
            data: A number, or an array or list of one replica or of all replicas.
            save_copy_and_apply_at_reset: If True, replicas restart from a copy of the initial values.
            log_data_across_episode: If True, a buffer of a whole episode is allocated for the log.
            **attributes: Further attributes.
        """
        flags = {
            "save_copy_and_apply_at_reset": save_copy_and_apply_at_reset,
            "log_data_across_episode": log_data_across_episode,
        }
        self[name] = {"data": data, "attributes": {**flags, **attributes}}

    def add_data_list(self, data_list: Sequence[Any]) -> None:
        """Add several arrays or numbers.

        Args:
            data_list: Tuples ``(name, data[, save_copy_and_apply_at_reset[, log_data_across_episode]])``, or
                dictionaries of the arguments of :meth:`add_data`.

        Raises:
            TypeError: If an element is neither.
        """
        for entry in data_list:
            if isinstance(entry, dict):
                self.add_data(**entry)
            elif isinstance(entry, tuple) and len(entry) >= 2:
                name, data, *flags = entry
                self.add_data(name, data, *(flag is True for flag in flags[:2]))
            else:
                raise TypeError(f"found {entry!r}, expected a tuple (name, data, ...) or a dictionary")

    def add_pool_for_reset(self, name: str, data: Any, reset_target: str) -> None:
        """Add start values, one of which is drawn at random whenever a replica restarts.

        Args:
            name: Name of the pool on the device.
            data: ``[size of the pool, *shape]``, for a target of this shape in each replica.
            reset_target: Name of the array that is set.
        """
        self.add_data(name, data, is_reset_pool=True, reset_target=reset_target)
