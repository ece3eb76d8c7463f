"""Each agent tells the other one where to go."""

from warpdrive.envs.simple_reference.simple_reference import SimpleReference

__all__ = ["SimpleReference"]
