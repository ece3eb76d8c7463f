"""A car rocks out of a valley whose slope is steeper than its motor is strong."""

from warpdrive.envs.mountain_car.mountain_car import MountainCar

__all__ = ["MountainCar"]
