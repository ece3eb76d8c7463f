"""A flock of boids on a torus."""

from warpdrive.envs.flock.flock import Flock

__all__ = ["Flock"]
