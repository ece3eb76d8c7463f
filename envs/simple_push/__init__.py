"""An adversary pushes a good agent away from its goal."""

from warpdrive.envs.simple_push.simple_push import SimplePush

__all__ = ["SimplePush"]
