"""A car rocks out of a valley as ``mountain_car`` does, with a motor whose force is chosen freely."""

from warpdrive.envs.continuous_mountain_car.continuous_mountain_car import ContinuousMountainCar

__all__ = ["ContinuousMountainCar"]
