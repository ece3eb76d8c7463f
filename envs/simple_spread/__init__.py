"""Agents spread over landmarks without bumping into each other."""

from warpdrive.envs.simple_spread.simple_spread import SimpleSpread

__all__ = ["SimpleSpread"]
