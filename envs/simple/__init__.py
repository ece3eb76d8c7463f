"""A single agent moves to a landmark."""

from warpdrive.envs.simple.simple import Simple

__all__ = ["Simple"]
