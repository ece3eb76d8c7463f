"""A pole stands on a cart that is pushed left and right."""

from warpdrive.envs.cartpole.cartpole import CartPole

__all__ = ["CartPole"]
