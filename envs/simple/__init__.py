"""An agent goes to a landmark."""

from warpdrive.envs.simple.simple import Simple

__all__ = ["Simple"]
