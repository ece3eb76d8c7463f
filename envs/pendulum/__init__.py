"""A pendulum is swung up and held upright by a weak motor."""

from warpdrive.envs.pendulum.pendulum import Pendulum

__all__ = ["Pendulum"]
