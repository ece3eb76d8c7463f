"""Taggers chase one runner on a grid."""

from warpdrive.envs.tag_gridworld.tag_gridworld import TagGridworld

__all__ = ["TagGridworld"]
