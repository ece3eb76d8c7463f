"""Armies of units fight: the StarCraft-like battles of SMAX."""

from warpdrive.envs.smax.smax import Smax

__all__ = ["Smax"]
