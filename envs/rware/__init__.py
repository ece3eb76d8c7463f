"""Robots carry requested shelves of a warehouse to its goals."""

from warpdrive.envs.rware.rware import MultiRobotWarehouse

__all__ = ["MultiRobotWarehouse"]
